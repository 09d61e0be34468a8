"""Explain every family of the zoo by every method, compare with oracles, and write docs/networks.md.

python tools/docs/document_networks.py

A stopped run resumes: each family's results are stored in a file of the work folder, and are reused while neither the
package's code nor the zoo's changes.

Cost: 16 CPU seconds for a small family such as `residual`; 285 CPU seconds and 12.4 GiB of memory for VGG16.
"""

from __future__ import annotations

import collections
import functools
import json
import os
import pathlib
import re
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # without it, some processors compute no grouped convolutions

from absl import flags  # noqa: E402

import attribution  # noqa: E402
from attribution import cli  # noqa: E402
from attribution.errors import BadInput, listed  # noqa: E402
from attribution.files import atomic_write  # noqa: E402
from attribution_benchmarks.core.fingerprint import code_fingerprint  # noqa: E402
from attribution_benchmarks.core.tables import markdown_table  # noqa: E402
from tools.model_zoo import measure  # noqa: E402
from tools.model_zoo.families import FAMILIES, GROUPS  # noqa: E402

FLAGS = flags.FlagValues()
flags.DEFINE_list("families", [], "names of families; all by default", flag_values=FLAGS)
flags.DEFINE_string("work_dir", str(ROOT / "data" / "zoo"), "folder of the results", flag_values=FLAGS)
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
HEAD = ROOT / "tools" / "docs" / "networks_head.md"


def results(names, folder: pathlib.Path) -> dict[str, dict]:
    """Measure families without current results; return the results of all families that have any.

    ``folder`` has a file a family. Without names all are measured; ``BadInput`` if there is no such family.
    """
    unknown = [name for name in names if name not in FAMILIES]
    if unknown:
        raise BadInput(f"no family '{unknown[0]}'; the families are {listed(FAMILIES)}")
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or FAMILIES:
        if _known(folder / f"{name}.json") is None:
            _print_progress(f"{name}:", end="")
            started = time.monotonic()
            found = measure.measure(FAMILIES[name], told=lambda method: _print_progress(f" {method}", end=""))
            _print_progress(f" ({time.monotonic() - started:.0f} s)")
            atomic_write(folder / f"{name}.json", json.dumps({"code": _code(), **found}, indent=1, ensure_ascii=False))
    kept = {name: _known(folder / f"{name}.json") for name in FAMILIES}
    return {name: found for name, found in kept.items() if found is not None}


def _known(path: pathlib.Path) -> dict | None:
    """Return the results in a file, unless the code has changed since or methods have been added."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if found.get("code") == _code() and set(found["methods"]) >= set(measure.METHODS) else None


@functools.cache
def _code() -> str:
    """Return the SHA-256 of what results depend on: the package's code and the zoo's."""
    return code_fingerprint("attribution", files=sorted((ROOT / "tools" / "model_zoo").glob("*.py")))


def _print_progress(text, end="\n"):
    print(text, end=end, file=sys.stderr, flush=True)


def page(results: dict[str, dict]) -> str:
    """Return the page as Markdown, from each family's result of ``measure.measure``, in the zoo's order."""
    lines = [HEAD.read_text(encoding="utf-8"), *_totals(results)]
    cells = [cell for found in results.values() for cell in found["methods"].values()]
    zero = sum(cell["status"] == "exact" and cell["note"] == "all zero" for cell in cells)
    lines.append(f"\n{zero} of the exact cells have maps that are zero everywhere.")
    missing = [name for name in FAMILIES if name not in results]
    if missing:
        lines.append(f"\nNot measured, and not counted: {', '.join(missing)}.")
    lines += ["", "## Families", "", _families(results).rstrip("\n")]
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


def _families(results) -> str:
    """Return a table of the numbers of methods by status, families by groups of methods."""
    body = []
    for group, families in GROUPS.items():
        body.append([f"**{group}**", *[""] * len(TABLES)])
        for family in families:
            cells = ["not measured"] * len(TABLES)
            if family.name in results:
                counts = [_counts([results[family.name]], methods) for methods in TABLES.values()]
                cells = [", ".join(f"{one[status]} {status}" for status in STATUSES if one[status]) for one in counts]
            body.append([f"{family.name}: {family.about}", *cells])
    return markdown_table(["family", *TABLES], body)


def _table(title, methods, results) -> list[str]:
    """Return a table of every measured family by some methods, and the numbered reasons below it."""
    with_layer = title == "Class activation maps"
    heads = ["family", *(["default layer"] if with_layer else []), *(attribution.METHODS[m].title for m in methods)]
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
    """Measure what is missing and write the page of what is there."""
    found = results(values.families, pathlib.Path(values.work_dir))
    pathlib.Path(values.output).write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
