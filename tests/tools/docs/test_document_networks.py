"""docs/networks.md says what a run found, and a stopped run resumes."""

import dataclasses

import pytest

from attribution import cli
from attribution.errors import BadInput
from tools.docs import document_networks
from zoo import measure
from zoo.families import FAMILIES
from zoo.measure import Cell


def results(**cells):
    methods = {name: dataclasses.asdict(cells.get(name, Cell("rows"))) for name in measure.METHODS}
    return {"residual": {"layer": "functional_1/relu/Relu (4, 4, 12)", "methods": methods}}


def test_cells_and_reasons():
    refused = "no relevance rule for the operation While (node 'StatefulPartitionedCall/lstm_1/while')"
    text = document_networks.page(
        results(
            gradient=Cell("exact", "its definition", 2.4e-7),
            gradient_x_input=Cell("exact", "its definition", 0.0, note="all zero"),
            deeplift=Cell("differs", "f(x) - f(0)", 0.02),
            vargrad=Cell("rounding", "its definition", 0.003, 4e-8, 0.002),
            lrp_epsilon=Cell("rows", note="Σ/f 0.31 to 0.40"),
            lrp_cp=Cell("refused", note=refused),
            lrp_attn=Cell("refused", note=refused.replace("lstm_1", "lstm_2")),
            rise=Cell("crashes", note="ValueError: bad"),
        )
    )
    assert "| residual: ResNet block | exact 2e-07 | exact 0e+00, all zero | rows |" in text
    assert "| differs 2e-02 |" in text and "| rows, Σ/f 0.31 to 0.40 |" in text
    assert "| refused [1] | refused [1] |" in text and "1. no relevance rule for the operation While\n" in text
    assert "crashes [1]" in text and "1. ValueError: bad" in text
    assert "| `relu/Relu` 4x4x12 |" in text
    assert "| rounding 3e-03, float64 4e-08, oracle 2e-03 |" in text


def test_counts_are_those_of_the_cells_of_measured_families():
    gradient = Cell("exact", "its definition", 0.0, note="all zero")
    text = document_networks.page(results(gradient=gradient, rise=Cell("crashes", note="bad")))
    methods = len(measure.METHODS)
    assert f"**1 of {len(FAMILIES)} families** by {methods} methods, {methods} cells:" in text
    assert "| methods | exact | rows | differs | crashes |" in text
    assert f"| all | 1 | {methods - 2} | 0 | 1 |" in text
    gradients = len(document_networks.TABLES["Gradients"])
    assert f"| Gradients | 1 | {gradients - 1} | 0 | 0 |" in text
    assert f"| residual: ResNet block | 1 exact, {gradients - 1} rows |" in text
    assert "1 of the exact cells have maps that are zero everywhere." in text
    assert "Not measured, and not counted: VGG16, " in text
    assert "| VGG16: 64x64 | not measured | not measured |" in text


def test_other_writers_are_marked_where_they_differ():
    exact = Cell("exact", "its definition", 0.0)
    here = results(gradient=exact, idgi=exact, deeplift=exact, rise=exact)
    jax = results(gradient=exact, idgi=exact, deeplift=Cell("refused", note="no rule"), rise=exact)
    text = document_networks.page(here, {"jax": jax, "torch": {"residual": {"not_written": "No op.", "methods": {}}}})
    rows = len(document_networks.TABLES["Gradients"]) - 3
    assert f"| residual: ResNet block | 3 exact, {rows} rows; JAX: 1 refused |" in text
    assert "| JAX | 1 | 3 | 0 | 1 | 0 | 75.0% |" in text
    assert "| PyTorch | 0 | 0 | 0 | 0 | 0 | 0.0% |" in text
    assert "PyTorch does not write residual: No op" in text
    same = document_networks.page(here, {"jax": here})
    assert "JAX: " not in same and "| JAX | 1 | 4 |" in same
    assert len(text.splitlines()) - len(document_networks.page(here).splitlines()) == 9


def test_a_family_can_be_compared_by_some_methods():
    exact = Cell("exact", "its definition", 0.0)
    here = results(gradient=exact, rise=exact)
    assert document_networks.exact_methods(here) == {"residual": ["gradient", "rise"]}
    assert document_networks.exact_methods(here, ["rise", "idgi"]) == {"residual": ["rise"]}
    jax = {"residual": {"layer": "", "methods": {"rise": dataclasses.asdict(exact)}}}
    text = document_networks.page(here, {"jax": jax})
    assert "| JAX | 1 | 1 |" in text and "Compared on JAX by some methods alone: residual." in text
    assert "some methods alone" not in document_networks.page(here, {"jax": here})


def test_a_writer_is_compared_where_tensorflows_file_is_exact(tmp_path, monkeypatch):
    class Explained:
        def __init__(self, family, path):
            self.path = path

        def find_layers(self):
            pass

    def compare(reference, path, methods, report):
        return {
            "layer": f"{path}, {reference.path}",
            "methods": dict.fromkeys(methods, dataclasses.asdict(Cell("exact"))),
        }

    def write(family, writer, folder, python=""):
        if family.name == "prelu" and writer == "torch":
            raise document_networks.writers.NotWritten("no such operation")
        return f"{writer} by {python}"

    monkeypatch.setattr(document_networks.comparison, "Explained", Explained)
    monkeypatch.setattr(document_networks.comparison, "compare", compare)
    monkeypatch.setattr(document_networks.writers, "write", write)
    names = ["residual", "prelu", "tensorflow_1"]
    exact = document_networks.exact_methods(results(gradient=Cell("exact"))) | {"prelu": ["gradient"]}
    found = document_networks.results(names, tmp_path, "torch", "other python", exact)
    assert found["residual"]["layer"] == "torch by other python, tensorflow by "
    assert list(found["residual"]["methods"]) == ["gradient"]
    assert found["prelu"]["not_written"] == "no such operation" and "tensorflow_1" not in found
    with pytest.raises(BadInput, match="no writer 'onnx'; the writers are"):
        document_networks.results(names, tmp_path, "onnx")


def test_the_page_is_written_from_what_is_stored(tmp_path):
    here = results(gradient=Cell("exact", "", 2.4e-7, note="all zero"), lrp_cp=Cell("refused", note="no rule"))
    jax = {"residual": {"layer": "another default layer", "methods": {"gradient": dataclasses.asdict(Cell("differs"))}}}
    document_networks.store(tmp_path / "networks.json", {"": here, "jax": jax})
    known = document_networks.stored(tmp_path / "networks.json")
    assert document_networks.page(known[""], {"jax": known["jax"]}) == document_networks.page(here, {"jax": jax})
    flags = [f"--stored={tmp_path / 'networks.json'}", f"--output={tmp_path / 'page.md'}", "--nomeasure"]
    command = [document_networks.main, document_networks.FLAGS, document_networks.__doc__, ["document", *flags]]
    assert cli.execute(*command) == 0
    text = (tmp_path / "page.md").read_text()
    assert "exact 2e-07, all zero" in text and "JAX: 1 differs" in text and "another default layer in residual" in text


def test_a_stopped_run_resumes_and_other_code_starts_again(tmp_path, monkeypatch):
    measured = []

    def fake(family, report):
        measured.append(family.name)
        if len(measured) == 2:
            raise KeyboardInterrupt
        return results()["residual"]

    monkeypatch.setattr(measure, "measure", fake)
    names = ["residual", "prelu"]
    with pytest.raises(KeyboardInterrupt):
        document_networks.results(names, tmp_path)
    assert list(document_networks.results(names, tmp_path)) == names
    monkeypatch.setattr(document_networks, "_code", lambda: "other")
    document_networks.results(["residual"], tmp_path)
    assert measured == ["residual", "prelu", "prelu", "residual"]


def test_an_unknown_family_is_refused(tmp_path):
    with pytest.raises(BadInput, match="no family 'resnet'; the families are"):
        document_networks.results(["resnet"], tmp_path)


def test_every_method_has_its_column():
    assert sorted(name for methods in document_networks.TABLES.values() for name in methods) == sorted(measure.METHODS)
