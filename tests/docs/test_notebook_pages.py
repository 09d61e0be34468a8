"""The pages of the site that are notebooks: their text, code and outputs."""

import importlib.util
import json
import pathlib

import pytest

pytest.importorskip("mkdocs", reason="the site was NOT tested: pip install -e '.[docs]'")
ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def hook():
    place = importlib.util.spec_from_file_location("notebooks", ROOT / "tools" / "docs" / "notebooks.py")
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    return module


def test_a_notebook_is_a_page_with_its_outputs(hook):
    page = hook.as_markdown(ROOT / "docs" / "first_steps.ipynb")
    assert page.startswith("# First steps\n")
    assert (
        "results = attribution_benchmarks.score([sharpened" in page and page.count('src="data:image/png;base64,') == 3
    )
    pictures = hook.as_markdown(ROOT / "docs" / "tutorials" / "imagenet.ipynb")
    assert pictures.count('src="data:image/jpeg;base64,') == 2
    assert "ROE" in page.partition("print(results.table())")[2].partition("<pre")[2]


def test_outputs_are_text_and_no_markup(hook, tmp_path):
    cells = [
        {"cell_type": "markdown", "source": ["# A\n", "text"]},
        {"cell_type": "code", "source": "x = '```'", "outputs": [{"text": ["<script>\n", "1 < 2"]}, {"text": "  "}]},
    ]
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    first, link, code, output = hook.as_markdown(path).strip().split("\n\n")
    assert first == "# A\ntext" and 'href="../a.ipynb"' in link and code == "`````python\nx = '```'\n`````"
    assert output == '<pre class="output"><code>&lt;script&gt;\n1 &lt; 2</code></pre>'


def test_links_to_notebooks_lead_to_their_pages(hook):
    assert hook.on_page_markdown("[a](x/a.ipynb#b) [c](d.md) `e.ipynb`") == "[a](x/a.md#b) [c](d.md) `e.ipynb`"
