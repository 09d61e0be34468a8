"""Run the notebooks of docs/ from the first cell to the last and save their outputs.

    python tools/docs/run_notebooks.py   # all of them
    python tools/docs/run_notebooks.py docs/own_model.ipynb

``tests/docs/test_notebooks.py`` checks that the saved outputs are what the cells compute.
"""

import pathlib
import sys

import nbformat
from nbclient import NotebookClient

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "docs"


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
    notebook.metadata["language_info"] = {"name": "python"}
    return notebook


if __name__ == "__main__":
    for argument in sys.argv[1:] or sorted(FOLDER.glob("*.ipynb")):
        nbformat.write(executed(pathlib.Path(argument)), argument)
        print(argument)
