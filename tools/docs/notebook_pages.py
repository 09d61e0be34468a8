"""Hook of mkdocs: every notebook of docs/ is also a page of the site, with the outputs that it stores.

The page docs/NAME.md of docs/NAME.ipynb exists while the site is built, and the navigation in mkdocs.yml lists it.
Links to notebooks lead to their pages. The notebook itself can be downloaded.
"""

from __future__ import annotations

import html
import json
import pathlib
import re
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

_WIDEST_FENCE = "`" * 5


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each notebook."""
    for file in [file for file in files if file.src_uri.endswith(".ipynb")]:
        text = as_markdown(pathlib.Path(str(file.abs_src_path)))
        files.append(File.generated(config, file.src_uri.replace(".ipynb", ".md"), content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return a page whose links to notebooks lead to their pages."""
    return re.sub(r"\]\(([\w/.-]+)\.ipynb(#[\w-]+)?\)", r"](\1.md\2)", markdown)


def as_markdown(path: pathlib.Path) -> str:
    """Return a notebook as Markdown: its text, its code, and its stored text and pictures."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(_fenced(source, "python") if cell["cell_type"] == "code" else source)
        parts += [part for output in cell.get("outputs", []) if (part := _output(output))]
    first, *others = parts
    return "\n\n".join([first, f'<a href="../{path.name}" download>Download this notebook</a>', *others, ""])


def _output(output: dict) -> str:
    data = output.get("data", {})
    for kind in ("image/png", "image/jpeg"):
        if kind in data:
            return f'<img alt="Output of the cell above" src="data:{kind};base64,{"".join(data[kind]).strip()}">'
    text = "".join(output.get("text") or data.get("text/plain", ""))
    return f'<pre class="output"><code>{html.escape(text)}</code></pre>' if text.strip() else ""


def _fenced(text: str, language: str) -> str:
    return f"{_WIDEST_FENCE}{language}\n{text}\n{_WIDEST_FENCE}"
