"""Explain every family of the zoo by every method, compare with oracles, and write docs/networks.md.

python -m tools.docs.document_networks --families=residual,prelu --writers=jax,torch --torch_python=PYTHON
python -m tools.docs.document_networks --families=DenseNet121 --writers=jax --methods=gradient,grad_cam --notensorflow

The second one compares some methods alone, and with what is stored of TensorFlow's file.

A stopped run resumes: each family's results are stored in a file of the work folder, a folder for each writer, and are
reused while neither the package's code nor the zoo's changes. So are the files that Keras writes on JAX and on PyTorch.
The page is written from docs/networks.json, in which the results of this run replace those of earlier ones.

Cost: 16 CPU seconds for a small family such as `residual`, 8 for each of its writers; 285 CPU seconds and 12.4 GiB of
memory for VGG16.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import json
import os
import pathlib
import re
import sys
import time

os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # without it, some processors compute no grouped convolutions

from absl import flags

import attribution
from attribution import cli
from attribution.errors import BadInput, listed
from attribution.files import atomic_write
from attribution_benchmarks.core.fingerprint import code_fingerprint
from attribution_benchmarks.core.tables import markdown_table
from tools.docs.page_parts import ROOT

sys.path.append(str(ROOT / "tests"))  # the zoo is part of the tests

from zoo import comparison, measure, writers
from zoo.families import FAMILIES, GROUPS

FLAGS = flags.FlagValues()
flags.DEFINE_list("families", [], "names of families; all by default", flag_values=FLAGS)
flags.DEFINE_string("work_dir", str(ROOT / "data" / "zoo"), "folder of the results", flag_values=FLAGS)
flags.DEFINE_list("writers", [], "others that write the families: jax, torch; none by default", flag_values=FLAGS)
flags.DEFINE_bool("tensorflow", True, "measure TensorFlow's files; else their stored cells count", flag_values=FLAGS)
flags.DEFINE_list("methods", [], "methods to compare on other writers' files; all by default", flag_values=FLAGS)
flags.DEFINE_string("torch_python", "", "Python that has torch_xla; this one by default", flag_values=FLAGS)
flags.DEFINE_bool("measure", True, "measure what has no results; else write the page alone", flag_values=FLAGS)
flags.DEFINE_string("stored", str(ROOT / "docs" / "networks.json"), "file of all results", flag_values=FLAGS)
flags.DEFINE_string("output", str(ROOT / "docs" / "networks.md"), "file to write", flag_values=FLAGS)

TABLES = {
    "Gradients": (
        "gradient", "gradient_x_input", "integrated_gradients", "smoothgrad", "vargrad", "expected_gradients",
        "guided_integrated_gradients", "idgi", "blur_ig", "xrai", "full_grad", "deeplift", "guided_backprop",
        "deconvnet",
    ),
    "Relevance": (
        "lrp_epsilon", "lrp_epsilon_plus", "lrp_epsilon_plus_flat", "lrp_gamma", "lrp_epsilon_gamma_box",
        "lrp_alpha1beta0", "lrp_cp", "lrp_attn", "lrp_clevr_xai", "excitation_backprop",
    ),
    "Class activation maps": (
        "grad_cam", "guided_grad_cam", "grad_cam_plus_plus", "layer_cam", "hires_cam", "eigen_cam", "xgrad_cam",
        "ablation_cam", "score_cam", "score_cam_constant_masks", "sise",
    ),
    "Attention and perturbation": (
        "attention_rollout", "gradient_rollout", "occlusion", "rise", "shapley_sampling", "kernel_shap", "lime",
    ),
}  # fmt: skip
STATUSES = ("exact", "rounding", "limit", "complete", "rows", "differs", "refused", "crashes")
OF_WRITERS = ("exact", "differs", "refused", "crashes")
HEAD = ROOT / "tools" / "docs" / "networks_head.md"


def results(names, folder: pathlib.Path, writer: str = "", python: str = "", exact=None) -> dict[str, dict]:
    """Measure families without current results; return the results of all families that have any.

    ``folder`` has a file a family. Without names all are measured; ``BadInput`` if there is no such family. ``writer``
    is a key of ``writers.WRITERS``, or nothing for TensorFlow, ``python`` an interpreter that has its packages, and
    ``exact`` has the methods to compare by family: those whose maps are exact on TensorFlow's file.
    """
    _check_known(names, FAMILIES, "family", "families")
    _check_known({writer} - {""}, writers.WRITERS, "writer", "writers")
    kept = folder / writer
    kept.mkdir(parents=True, exist_ok=True)
    methods = {name: measure.METHODS if exact is None else exact.get(name, ()) for name in FAMILIES}
    families = _written(methods) if writer else FAMILIES
    for name in filter(families.__contains__, names or families):
        if _known(kept / f"{name}.json", methods[name]) is None:
            _print_progress(f"{' of '.join(filter(None, [name, writer]))}:", end="")
            started = time.monotonic()
            found = _measured(families[name], folder, writer, python, methods[name])
            _print_progress(f" ({time.monotonic() - started:.0f} s)")
            atomic_write(kept / f"{name}.json", json.dumps({"code": _code(), **found}, indent=1, ensure_ascii=False))
    known = ((name, _known(kept / f"{name}.json", methods[name])) for name in families)
    return {name: found for name, found in known if found is not None}


def _written(methods) -> dict:
    """Return the families that other writers can write, of which some methods are compared."""
    return {name: one for name, one in FAMILIES.items() if methods[name] and writers.writable(one)}


def _check_known(names, known, what: str, plural: str) -> None:
    if unknown := [name for name in names if name not in known]:
        raise BadInput(f"no {what} '{unknown[0]}'; the {plural} are {listed(known)}")


def _measured(family, folder, writer, python, methods) -> dict:
    """Return the result of ``measure`` or ``compare``, or ``"not_written"``: why the writer has no such file."""
    report = {"report": lambda method: _print_progress(f" {method}", end="")}
    if not writer:
        return measure.measure(family, **report)
    files = folder / "files" / family.name
    files.mkdir(parents=True, exist_ok=True)
    try:
        paths = [writers.write(family, one, files, python) for one, python in (("tensorflow", ""), (writer, python))]
    except writers.NotWritten as error:
        return {"not_written": str(error), "methods": {}}
    reference = comparison.Explained(family, paths[0])
    reference.find_layers()
    return comparison.compare(reference, paths[1], methods, **report)


def _known(path: pathlib.Path, methods) -> dict | None:
    """Return the results in a file, unless the code has changed since or methods have been added."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    complete = "not_written" in found or set(found["methods"]) >= set(methods)
    return found if found.get("code") == _code() and complete else None


def exact_methods(results, chosen=()) -> dict[str, list[str]]:
    """Return by family the methods whose maps are exact, those of the chosen ones if there are any."""
    cells = {name: found["methods"].items() for name, found in results.items()}
    return {
        name: [method for method, cell in found if cell["status"] == "exact" and method in (chosen or measure.METHODS)]
        for name, found in cells.items()
    }


def stored(path: pathlib.Path) -> dict[str, dict[str, dict]]:
    """Return all results that a file has: by writer, TensorFlow's by the key ``""``, and by family."""
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for found in (one for families in known.values() for one in families.values()):
        found["methods"] = {name: dataclasses.asdict(measure.Cell(**cell)) for name, cell in found["methods"].items()}
    return known


def store(path: pathlib.Path, known) -> None:
    """Write all results to a file, without what is empty, a line a family."""
    lines = []
    for writer, families in known.items():
        short = {
            name: json.dumps(_short(found), ensure_ascii=False, separators=(",", ":"))
            for name, found in families.items()
        }
        lines.append(
            f"{json.dumps(writer)}: {{\n" + ",\n".join(f'"{name}": {one}' for name, one in short.items()) + "}"
        )
    atomic_write(path, "{" + ",\n".join(lines) + "}\n")


def _short(found) -> dict:
    rest = {key: value for key, value in found.items() if key not in ("methods", "code")}
    kept = ("status", "difference", "in_double", "of_oracle", "note")
    cells = {
        name: {key: _rounded(cell[key]) for key in kept if cell[key] not in (None, "")}
        for name, cell in found["methods"].items()
    }
    return rest | {"methods": cells}


def _rounded(value):
    return float(f"{value:.2e}") if isinstance(value, float) else value


@functools.cache
def _code() -> str:
    """Return the SHA-256 of what results depend on: the package's code and the zoo's."""
    return code_fingerprint("attribution", files=sorted((ROOT / "tests" / "zoo").glob("*.py")))


def _print_progress(text, end="\n"):
    print(text, end=end, file=sys.stderr, flush=True)


def page(results: dict[str, dict], by_writer: dict[str, dict[str, dict]] | None = None) -> str:
    """Return the page as Markdown, from each family's result of ``measure.measure``, in the zoo's order.

    ``by_writer`` has the results by the other writers' keys.
    """
    by_writer = by_writer or {}
    lines = [HEAD.read_text(encoding="utf-8"), *_totals(results)]
    cells = [cell for found in results.values() for cell in found["methods"].values()]
    zero = sum(cell["status"] == "exact" and cell["note"] == "all zero" for cell in cells)
    lines.append(f"\n{zero} of the exact cells have maps that are zero everywhere.")
    missing = [name for name in FAMILIES if name not in results]
    if missing:
        lines.append(f"\nNot measured, and not counted: {', '.join(missing)}.")
    lines += _writers(results, by_writer)
    lines += ["", "## Families", "", _families(results, by_writer).rstrip("\n")]
    for title, methods in TABLES.items():
        lines += ["", f"## {title}", "", '<details markdown="1"><summary>Every family by every method</summary>', ""]
        lines += [*_table(title, methods, results), "", "</details>"]
    return "\n".join(lines) + "\n"


def _totals(results) -> list[str]:
    """Return the lines of a table of the numbers of cells by status, of each group of methods and of all."""
    counts = {title: _counts(results.values(), methods) for title, methods in TABLES.items()}
    cells = sum(counts.values(), collections.Counter())
    shown = [status for status in STATUSES if cells[status] or status in ("differs", "crashes")]
    body = [
        [title, *(str(of_group[status]) for status in shown)] for title, of_group in (counts | {"all": cells}).items()
    ]
    summary = (
        f"**{len(results)} of {len(FAMILIES)} families** by {len(measure.METHODS)} methods, {cells.total()} cells:"
    )
    return [summary, "", markdown_table(["methods", *shown], body).rstrip("\n")]


def _counts(found, methods) -> collections.Counter:
    return collections.Counter(one["methods"][method]["status"] for one in found for method in methods)


def _writers(results, by_writer) -> list[str]:
    """Return the lines of a table of what is known by other writers' files of the cells that TensorFlow's has exact."""
    if not by_writer:
        return []
    body = []
    for writer, found in by_writer.items():
        counts = sum((_where_exact(results, found, name, measure.METHODS) for name in found), collections.Counter())
        families = sum("not_written" not in one for one in found.values())
        share = f"{counts['exact'] / max(counts.total(), 1):.1%}"
        body.append([writers.WRITERS[writer], str(families), *(str(counts[status]) for status in OF_WRITERS), share])
    text = (
        "Keras runs on JAX and on PyTorch, too. Where a map is exact on TensorFlow's file, it is compared with the map "
        "on the file that Keras writes there with the same weights, at the same layer, to 2e-5 (PyTorch's files have a "
        "fixed number of rows; networks that TensorFlow alone can write have no other file):"
    )
    remarks = [remark for writer, found in by_writer.items() for remark in _remarks(results, found, writer)]
    table = markdown_table(["writer", "families", *OF_WRITERS, "exact"], body).rstrip("\n")
    return ["", text, "", table, *(["", " ".join(remarks)] if remarks else [])]


def _remarks(results, found, writer) -> list[str]:
    """Return what a writer does not write, where its default layer is another, and what is not compared, or in part."""
    title = writers.WRITERS[writer]
    of_families = {
        f"{title} has another default layer in": [name for name, one in found.items() if one.get("layer")],
        f"Not compared on {title}:": [
            name for name in results if writers.writable(FAMILIES[name]) and name not in found
        ],
        f"Compared on {title} by some methods alone:": [name for name in found if _is_part(results, found, name)],
    }
    return _not_written(found, title) + [f"{text} {', '.join(names)}." for text, names in of_families.items() if names]


def _not_written(found, title) -> list[str]:
    return [
        f"{title} does not write {name}: {measure.in_general(one['not_written'])}."
        for name, one in found.items()
        if "not_written" in one
    ]


def _is_part(results, found, name) -> bool:
    """Return whether only some of the methods that are exact on TensorFlow's file of a family were compared."""
    compared = found[name]["methods"]
    return bool(compared) and not set(exact_methods(results).get(name, ())) <= set(compared)


def _where_exact(results, found, name, methods) -> collections.Counter:
    """Count, by status on another writer's file, the methods that are exact on TensorFlow's file of a family."""
    if name not in results or name not in found:
        return collections.Counter()
    here, there = results[name]["methods"], found[name]["methods"]
    compared = [method for method in methods if method in there and here[method]["status"] == "exact"]
    return collections.Counter(there[method]["status"] for method in compared)


def _marks(results, by_writer, name, methods) -> str:
    """Return what other writers' files have of the methods that are exact on TensorFlow's, where it is not the same."""
    marks = []
    for writer, found in by_writer.items():
        counts = _where_exact(results, found, name, methods)
        if unlike := [f"{counts[status]} {status}" for status in OF_WRITERS[1:] if counts[status]]:
            marks.append(f"; {writers.WRITERS[writer]}: {', '.join(unlike)}")
    return "".join(marks)


def _families(results, by_writer) -> str:
    """Return a table of the numbers of methods by status, families by groups of methods."""
    body = []
    for group, families in GROUPS.items():
        body.append([f"**{group}**", *[""] * len(TABLES)])
        for family in families:
            cells = ["not measured"] * len(TABLES)
            if family.name in results:
                counts = [_counts([results[family.name]], methods) for methods in TABLES.values()]
                cells = [", ".join(f"{one[status]} {status}" for status in STATUSES if one[status]) for one in counts]
                marks = [_marks(results, by_writer, family.name, methods) for methods in TABLES.values()]
                cells = [cell + mark for cell, mark in zip(cells, marks, strict=True)]
            body.append([f"{family.name}: {family.about}", *cells])
    return markdown_table(["family", *TABLES], body)


def _table(title, methods, results) -> list[str]:
    """Return a table of every measured family by some methods, and the numbered reasons below it."""
    with_layer = title == "Class activation maps"
    heads = ["family", *["default layer"] * with_layer, *(attribution.METHODS[m].title for m in methods)]
    body = []
    reasons: dict[str, int] = {}  # reason -> its number below the table
    for group, families in GROUPS.items():
        present = [family for family in families if family.name in results]
        if present:
            body.append([f"**{group}**", *[""] * (len(heads) - 1)])
        for family in present:
            found = results[family.name]
            cells = [_cell(found["methods"][method], reasons) for method in methods]
            layer = [_layer(found["layer"])] if with_layer else []
            body.append([f"{family.name}: {family.about}", *layer, *cells])
    return [markdown_table(heads, body), *(f"{number}. {text}" for text, number in reasons.items())]


def _cell(cell, reasons) -> str:
    if cell["status"] in ("refused", "crashes"):
        return f"{cell['status']} [{reasons.setdefault(measure.in_general(cell['note']), len(reasons) + 1)}]"
    known = {"": cell["difference"], "float64 ": cell["in_double"], "oracle ": cell["of_oracle"]}
    numbers = [f"{name}{value:.0e}" for name, value in known.items() if value is not None]
    return ", ".join(filter(None, [" ".join([cell["status"], *numbers[:1]]), *numbers[1:], cell["note"]]))


def _layer(text) -> str:
    named = re.fullmatch(r"(\S+) \(([\d, ]+)\)", text)
    return f"`{named[1].removeprefix('functional_1/')}` {named[2].replace(', ', 'x')}" if named else "–"


def main(values):
    """Measure what is missing, add it to what is stored, and write the page of it."""
    folder, path = pathlib.Path(values.work_dir), pathlib.Path(values.stored)
    known = stored(path)
    if values.measure:
        _check_known(values.methods, measure.METHODS, "method", "methods")
        if values.tensorflow:
            known.setdefault("", {}).update(results(values.families, folder))
        exact, python = exact_methods(known[""], values.methods), {"torch": values.torch_python}
        for writer in values.writers:
            new = results(values.families, folder, writer, python.get(writer, ""), exact)
            known.setdefault(writer, {}).update(new)
        store(path, known)
    ours = {name: known[""][name] for name in FAMILIES if name in known.get("", {})}
    others = {writer: known[writer] for writer in writers.WRITERS if writer in known}
    pathlib.Path(values.output).write_text(page(ours, others), encoding="utf-8")


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
