"""Run the notebooks of docs/ from the first cell to the last and save their outputs.

    python tools/docs/run_notebooks.py   # all of them
    python tools/docs/run_notebooks.py docs/own_model.ipynb

Those of docs/tutorials need further packages, which they name, and run only by their path.
``tests/docs/test_notebooks.py`` checks that the saved outputs are what the cells compute.
"""

import base64
import io
import pathlib
import sys

import nbformat
from nbclient import NotebookClient
from PIL import Image

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "docs"
_LARGE = 500_000  # bytes of a PNG, as of photographs
_WIDTH = 1120  # of the JPEG that takes its place


def executed(path: pathlib.Path) -> nbformat.NotebookNode:
    """Return a notebook with the outputs of a run, without what differs between runs and machines."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(path.parent)}}).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times of day
        if "outputs" in cell:
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
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    picture.thumbnail((_WIDTH, picture.height), Image.Resampling.LANCZOS)
    jpeg = io.BytesIO()
    picture.save(jpeg, "JPEG", quality=85)
    del data["image/png"]
    data["image/jpeg"] = base64.b64encode(jpeg.getvalue()).decode()


if __name__ == "__main__":
    for argument in sys.argv[1:] or sorted(FOLDER.glob("*.ipynb")):
        nbformat.write(executed(pathlib.Path(argument)), argument)
        print(argument)
