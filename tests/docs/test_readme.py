"""The three commands from a Keras model to a picture of its maps, and the figures of README and docs/results.md."""

import csv
import importlib
import pathlib
import re
import shlex
import textwrap

import numpy as np
from PIL import Image

from attribution.cli import execute
from attribution.explain import __main__ as command

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text("utf-8")
RESULTS = (ROOT / "docs" / "results.md").read_text("utf-8")
METHODS_OF_SVEA = range(16)  # that the report scores
SECTION = (ROOT / "docs" / "get_started.md").read_text("utf-8").split("## See a map")[1].split("\n## ")[0]
_, EXPLAIN = re.search(r"```bash\n(.*?)```", SECTION, re.DOTALL)[1].splitlines()
EXPORT = re.search(r"`(python -c .+?)`", SECTION)[1]
LAYERS = '''
import keras
from keras import layers, ops


@keras.saving.register_keras_serializable("my_layers")
class Tokens(layers.Layer):
    """Put a class token before the others, and tell each its place."""

    def build(self, shape):
        self.token = self.add_weight(shape=(1, 1, shape[-1]), initializer="zeros", name="token")
        self.places = self.add_weight(shape=(1, shape[1] + 1, shape[-1]), initializer="random_normal", name="places")

    def call(self, x):
        return ops.concatenate([ops.repeat(self.token, ops.shape(x)[0], 0), x], 1) + self.places


def vit(side=32, patch=8, width=12, heads=3):
    inputs = keras.Input((side, side, 3))
    x = Tokens()(layers.Reshape((-1, width))(layers.Conv2D(width, patch, patch)(inputs)))
    for _ in range(2):
        y = layers.LayerNormalization()(x)
        x = x + layers.MultiHeadAttention(heads, width // heads)(y, y)
        y = layers.LayerNormalization()(x)
        x = x + layers.Dense(width)(layers.Dense(4 * width, activation="gelu")(y))
    return keras.Model(inputs, layers.Dense(5)(layers.LayerNormalization()(x)[:, 0]))
'''


def matrix_rows():
    """Title -> the ten cells of the matrix."""
    lines = RESULTS.split("| method | ROE % |")[1].split("\n\n")[0].splitlines()[2:]
    return {cells[0]: cells[1:] for line in lines for cells in [[cell.strip() for cell in line.strip("|").split("|")]]}


def measured_shares():
    """Title and column -> the shares of a score that baselines reach, in percent."""
    found: dict = {}
    with open(ROOT / "docs" / "baseline_shares.csv", newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            found.setdefault((row["method"], row["column"]), []).append(float(row["share_percent"]))
    return found


def test_text_table_and_marks_agree():
    """Of three or five networks no score has the mark; † is every share below the margin as measured."""
    shares = measured_shares()
    columns = "ROE %|Drop %|Incr. %|MCS|IDR|IIR|mass, s.|rank, s.|mass, c.|rank, c.".split("|")
    cells = {(title, one): cell for title, row in matrix_rows().items() for one, cell in zip(columns, row, strict=True)}
    scored = {place for place, cell in cells.items() if cell != "–"}
    below = {place for place in scored if max(shares.get(place, [100])) < 80}
    marked = {place for place, cell in cells.items() if "†" in cell}
    assert marked == below and "✓" not in "".join(cells.values())
    text = " ".join(RESULTS.split())
    assert f"For {len(below)} of {len(scored)} scores every baseline reaches less than 80 % as measured" in text
    kept = round(max(shares["Vanilla Gradient", "mass, s."]))
    assert f"the gradient keeps {kept} % (95 % interval 68 to 119 %)" in text


def test_the_number_of_methods_that_lose_to_the_largest_value_is_that_of_the_matrix():
    text = " ".join(RESULTS.split())
    window = float(re.search(r"\| Largest \\\|x\\\|, no network \| ([\d.]+)", RESULTS)[1])
    roe = [float(row[0].split()[0].rstrip("†")) for row in matrix_rows().values() if row[0] != "–"]
    assert len(roe) == len(METHODS_OF_SVEA)
    assert f"For {sum(score <= window for score in roe)} of {len(roe)} methods the window at the largest |x|" in text


def test_the_readmes_table_is_of_the_matrix():
    """Its rows are of the matrix, and it has the best method of each column."""
    number = r"([\d.]+|–)"
    rows = re.findall(rf"^\| ([^|]+) \| {number} \| {number} \| {number} \|$", README, re.MULTILINE)
    assert 5 <= len(rows) <= 8
    matrix = {title: [cell.split()[0].rstrip("†") for cell in cells] for title, cells in matrix_rows().items()}
    names = {
        "Integrated Gradients (from black)": "Integrated Gradients",
        "Integrated Gradients (from gray)": "IG from gray",
    }
    for title, *cells in rows[:-1]:
        row = matrix[names.get(title, title)]
        assert cells == [row[0], row[3], row[6]], title
    for place, column in enumerate((0, 3, 6)):
        best = max((row[column] for row in matrix.values() if row[column] != "–"), key=float)
        assert best in [cells[place] for _, *cells in rows[:-1]]
    table = RESULTS.split("| baseline | ROE % |")[1].split("\n\n")[0].splitlines()[2:]
    baselines = [[cell.strip() for cell in line.replace(r"\|", "").strip("|").split("|")[1:]] for line in table]
    compared = [[row[column] for row in baselines if re.fullmatch(r"[\d.]+", row[column])] for column in (0, 3, 6)]
    assert [*rows[-1][1:]] == [max(cells, key=float, default="–") for cells in compared]


def test_the_readmes_five_lines_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = re.search(r"```python\n(import attribution\n.*?)```", README, re.DOTALL)[1]
    exec(code.replace('"saved_models/', f'"{ROOT}/saved_models/'), {})
    assert Image.open("signals.png").size[0] > 300


def test_a_question_of_ones_own_is_answered_and_explained(monkeypatch):
    monkeypatch.chdir(ROOT)
    page = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")
    found = {}
    exec(textwrap.dedent(re.search(r"  ```python\n(  import attribution\n.*?)  ```", page, re.DOTALL)[1]), found)
    assert found["answer"] == "brown" and found["maps"].shape == (1, 128, 128, 3)


def test_families_of_classifiers_have_the_printed_accuracies(capsys):
    page = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")
    code, printed = re.search(r"  ```python\n(  from sklearn.*?)  # (.*?)\n  ```", page, re.DOTALL).groups()
    exec(textwrap.dedent(code), {})
    assert capsys.readouterr().out.splitlines() == printed.split(", ")


def test_a_picture_of_ones_own_network(tmp_path, monkeypatch, capsys):
    """In this process, which has TensorFlow already; the words are the page's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_layers.py").write_text(LAYERS)
    picture = np.random.default_rng(0).integers(0, 256, (40, 60, 3), np.uint8)
    Image.fromarray(picture).save("photo.jpg")
    importlib.import_module("my_layers").vit().save("network.keras")

    python, option, module, *arguments = shlex.split(EXPLAIN)
    assert (python, option, module) == (".venv/bin/python", "-m", "attribution.explain")
    assert execute(command.main, command.FLAGS, command.__doc__, ["explain", *arguments]) == 2
    assert "has the custom class 'Tokens'" in capsys.readouterr().err

    python, option, code = shlex.split(EXPORT)
    assert (python, option) == ("python", "-c")
    exec(code, {})
    exported = [each.replace("--model=network.keras", "--model=my_model") for each in arguments]
    capsys.readouterr()
    assert execute(command.main, command.FLAGS, command.__doc__, ["explain", *exported]) == 0
    printed = capsys.readouterr().out
    assert "photo: class" in printed and "written to maps.png" in printed
    assert Image.open("maps.png").size[0] > 500
