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
STATUSES = ("exact", "rounding", "limit", "complete", "rows", "unverified", "differs", "refused", "crashes")
_HEAD = """# Networks

This page shows what each method does on each family of networks, and what is known of its maps.
`python tools/docs/document_networks.py` writes it; do not edit. The networks are small members of their family with
random weights and random batch statistics (`tools/model_zoo`). Each is written as a SavedModel and explained from the
file alone.

- **exact**: the maps are within 1e-5 of the method's definition, relative to the largest value. The definition is
  computed without this project's graphs: by a `tf.GradientTape` through the file's signature, by that signature's
  scores, or, for layers, attention and changed ReLUs, in the graph of TensorFlow's own conversion to constants. Points,
  noise, masks and permutations are the same. LRP-ε, CP-LRP and AttnLRP are compared with Gradient x Input where the
  network is piecewise linear. All other relevance is compared with the published formulae, applied backwards to the
  layers of the live Keras network in float64 (`tools/model_zoo/relevance_oracle.py`), which uses neither the file nor
  the code of this project's methods.
- **rounding**: the difference is larger, but within 1e-5 when the same network computes in float64. The cell has that
  difference, too, and, as "oracle", how far the definition in float32 is from itself in float64. One cause is batch
  normalization: it is folded into the layers before it, and an activation near its kink may be on for one and off for
  the other. Cells near 1e-5 can change between runs: a second one of MobileNetV2, on one thread, changed five.
- **limit**: with one parameter changed, the method is another one, and those maps are exact: Guided Integrated
  Gradients on the straight path, and LRP-γ with γ = 0 where a piecewise linear network has no live Keras network. Of
  the method with its own parameter only as much is known as in "rows".
- **complete**: the maps have the sum that they must have, to 1e-5: DeepLIFT f(x) - f(0), relevance the logit,
  Excitation Backprop 1; FullGrad's terms add up to the logit. How the sum is distributed is not checked.
- **rows**: neither a definition nor a sum to compare with. The maps are finite and do not change when the other inputs
  of the batch do. `Σ/f` is the smallest and largest share of the logit (of 1, for Excitation Backprop) that maps of
  relevance add up to; biases and rules absorb the rest.
- **unverified**: not even that is known, because the network's own scores change with the other inputs.
- **differs**: the difference is also larger in float64, or float64 is not available; or a map changes with the other
  inputs. Half of them are replaced, at the same batch size, and the maps of the other half must stay the same to 1e-5.
- **refused**: the method is not defined for the network; the reason is below the table. **crashes**: any other result.

Row independence is checked in every cell that is not refused. Where a map is zero everywhere, as an exact one may be,
the cell says so. Methods run with few samples and three groups of positions. Relevance methods have ε = 1e-12, and the
range of the inputs as bounds. Ablation-CAM, Score-CAM and SISE use an earlier layer where the default one has more than
64 channels. For families that end in a softmax, probabilities are explained. VGG16 takes 12.4 GiB of memory. TensorFlow
computes with oneDNN, its default on processors with AVX-512; without it, other cells have the status "rounding".
"""


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
    lines = [_HEAD, *_totals(results)]
    cells = [cell for found in results.values() for cell in found["methods"].values()]
    zero = sum(cell["status"] == "exact" and cell["note"] == "all zero" for cell in cells)
    lines.append(f"\n{zero} of the exact cells have maps that are zero everywhere.")
    missing = [name for name in FAMILIES if name not in results]
    if missing:
        lines.append(f"\nNot measured, and not counted: {', '.join(missing)}.")
    lines += ["", "## Families", "", *_families(results)]
    for title, methods in TABLES.items():
        lines += ["", f"## {title}", "", '<details markdown="1"><summary>Every family by every method</summary>', ""]
        lines += [*_table(title, methods, results), "", "</details>"]
    return "\n".join(lines) + "\n"


def _totals(results):
    """Yield the lines of a table of the numbers of cells by status, of each group of methods and of all."""
    counts = {title: _counts(results.values(), methods) for title, methods in TABLES.items()}
    cells = sum(counts.values(), collections.Counter())
    shown = [status for status in STATUSES if cells[status] or status in ("differs", "crashes")]
    yield f"**{len(results)} of {len(FAMILIES)} families** by {len(measure.METHODS)} methods, {cells.total()} cells:"
    yield ""
    yield _row(["methods", *shown])
    yield _row(["---"] * (1 + len(shown)))
    for title, of_group in (counts | {"all": cells}).items():
        yield _row([title, *(str(of_group[status]) for status in shown)])


def _counts(found, methods) -> collections.Counter:
    return collections.Counter(one["methods"][method]["status"] for one in found for method in methods)


def _families(results):
    """Yield the lines of a table of the numbers of methods by status, families by groups of methods."""
    yield _row(["family", *TABLES])
    yield _row(["---"] * (1 + len(TABLES)))
    for group, families in GROUPS.items():
        yield _row([f"**{group}**", *[""] * len(TABLES)])
        for family in families:
            cells = ["not measured"] * len(TABLES)
            if family.name in results:
                counts = [_counts([results[family.name]], methods) for methods in TABLES.values()]
                cells = [", ".join(f"{one[status]} {status}" for status in STATUSES if one[status]) for one in counts]
            yield _row([f"{family.name}: {family.about}", *cells])


def _table(title, methods, results):
    with_layer = title == "Class activation maps"
    heads = ["family", *(["default layer"] if with_layer else []), *(attribution.METHODS[m].title for m in methods)]
    yield _row(heads)
    yield _row(["---"] * len(heads))
    reasons: dict[str, int] = {}  # reason -> its number below the table
    for group, families in GROUPS.items():
        present = [family for family in families if family.name in results]
        if present:
            yield _row([f"**{group}**", *[""] * (len(heads) - 1)])
        for family in present:
            found = results[family.name]
            cells = [_cell(found["methods"][method], reasons) for method in methods]
            layer = [_layer(found["layer"])] if with_layer else []
            yield _row([f"{family.name}: {family.about}", *layer, *cells])
    yield ""
    yield from (f"{number}. {text}" for text, number in reasons.items())


def _cell(cell, reasons) -> str:
    if cell["status"] in ("refused", "crashes"):
        return f"{cell['status']} [{reasons.setdefault(measure.in_general(cell['note']), len(reasons) + 1)}]"
    known = {"": cell["difference"], "float64 ": cell["in_double"], "oracle ": cell["of_oracle"]}
    numbers = [f"{name}{value:.0e}" for name, value in known.items() if value is not None]
    return ", ".join(filter(None, [" ".join([cell["status"], *numbers[:1]]), *numbers[1:], cell["note"]]))


def _layer(text) -> str:
    named = re.fullmatch(r"(\S+) \(([\d, ]+)\)", text)
    return f"`{named[1].removeprefix('functional_1/')}` {named[2].replace(', ', 'x')}" if named else "–"


def _row(cells) -> str:
    return "| " + " | ".join(cells) + " |"


def main(values):
    """Measure what is missing and write the page of what is there."""
    found = results(values.families, pathlib.Path(values.work_dir))
    pathlib.Path(values.output).write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
