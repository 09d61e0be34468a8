"""Run notebooks of docs/tutorials from the first cell to the last and save their outputs; show them on the site.

    python tools/docs/notebooks.py docs/tutorials/imagenet.ipynb

They need further packages, which they name.

This file is also a hook of mkdocs: every notebook is a page of the site, with the outputs that it stores. The page
docs/NAME.md of docs/NAME.ipynb exists while the site is built, and the navigation in mkdocs.yml lists it. Links to
notebooks lead to their pages. The notebook itself can be downloaded.
"""

from __future__ import annotations

import base64
import html
import io
import json
import pathlib
import re
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import nbformat
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

_LARGE = 500_000  # bytes of a PNG, as of photographs
_WIDTH = 1120  # of the JPEG that takes its place
_WIDEST_FENCE = "`" * 5


def executed(path: pathlib.Path) -> nbformat.NotebookNode:
    """Return a notebook with the outputs of a run, without what differs between runs and machines."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(path.parent)}}).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times of day
        if cell.source.startswith("%pip "):
            cell.outputs = []  # what a machine had to install
        elif "outputs" in cell:
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]  # progress bars
        for output in cell.get("outputs", []):
            output.get("metadata", {}).clear()
            shrink(output.get("data", {}))
    notebook.metadata["language_info"] = {"name": "python"}
    return notebook


def shrink(data: dict) -> None:
    """Replace a large PNG among an output's data by a JPEG, in place."""
    png = base64.b64decode(data.get("image/png", ""))
    if len(png) < _LARGE:
        return
    from PIL import Image

    picture = Image.open(io.BytesIO(png)).convert("RGB")
    picture.thumbnail((_WIDTH, picture.height), Image.Resampling.LANCZOS)
    jpeg = io.BytesIO()
    picture.save(jpeg, "JPEG", quality=85)
    del data["image/png"]
    data["image/jpeg"] = base64.b64encode(jpeg.getvalue()).decode()


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each notebook."""
    from mkdocs.structure.files import File

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
        parts.append(f"{_WIDEST_FENCE}python\n{source}\n{_WIDEST_FENCE}" if cell["cell_type"] == "code" else source)
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


if __name__ == "__main__":
    import nbformat

    for argument in sys.argv[1:]:
        nbformat.write(executed(pathlib.Path(argument)), argument)
        print(argument)
