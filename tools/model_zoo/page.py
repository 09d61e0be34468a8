"""Measure families, one file of results each, and write docs/networks.md from the results."""

from __future__ import annotations

import collections
import functools
import json
import pathlib
import re
import sys
import time

import attribution
from attribution.errors import BadInput, listed
from attribution.file_io.files import atomic_write
from attribution_benchmarks.core.fingerprint import code_fingerprint
from tools.model_zoo import measure
from tools.model_zoo.families import FAMILIES, GROUPS

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
STATUSES = ("exact", "rounding", "differs", "runs", "refused", "crashes")
_HEAD = """# Networks

This page shows what each method does on each family of networks. `python tools/docs/document_networks.py` writes it; do
not edit. The networks are small members of their family with random weights and random batch statistics
(`tools/model_zoo`). Each is written as a SavedModel and explained from the file alone.

- **exact**: within 1e-5 of an oracle, relative to the oracle's largest value; the largest difference is given. Oracles:
  - gradients: `tf.GradientTape` through the file's signature, with the same points and the same noise;
  - occlusion and RISE: scores of that signature;
  - DeepLIFT, IDGI, Shapley sampling and KernelSHAP: the map's sum is f(x) - f(0);
  - LRP-ε, where the network is piecewise linear: Gradient x Input by the same tape;
  - CP-LRP, where nothing has a bias: the map's sum is the logit.

  Relevance and multipliers of a file in 16 bits are computed in 32 bits and compared with the same network in float64.
- **rounding**: the difference is larger, but method and oracle agree within 1e-5 when the same network computes in
  float64, with the same weights and inputs. The difference is therefore due to float32. The cell also has the
  difference in float64 and, as "tape", how far the oracle's float32 is from its float64. One cause is batch
  normalization: it is folded into the layers before it, which changes the rounding, and an activation near its kink may
  be on for one and off for the other. Where the values of a map are thousands of times their sum, rounding them changes
  the sum.
- **differs**: an oracle exists, and the difference is also larger in float64, or float64 is not available. Or a map
  changes with the other inputs of its batch: half of the inputs are replaced, at the same batch size, and the maps of
  the other half must stay the same to 1e-5 of their largest value.
- **runs**: finite maps without an oracle. `Σ/f` is the smallest and largest share of the logit (of 1, for Excitation
  Backprop) that the maps add up to. Biases and rules absorb the rest.
- **refused**: the reason is below the table. **crashes**: any other result.

Methods run with few samples, LRP-ε and CP-LRP with ε = 1e-12, and LRP (CLEVR-XAI) with the range of the inputs.
Score-CAM and SISE use an earlier layer where the default one has more than 64 channels. For families that end in a
softmax, probabilities are explained.
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
    here = pathlib.Path(__file__).parent
    return code_fingerprint("attribution", files=[path for path in sorted(here.glob("*.py")) if path.stem != "page"])


def _print_progress(text, end="\n"):
    print(text, end=end, file=sys.stderr, flush=True)


def page(results: dict[str, dict]) -> str:
    """Return the page as Markdown, from each family's result of ``measure.measure``, in the zoo's order."""
    counts = collections.Counter(cell["status"] for found in results.values() for cell in found["methods"].values())
    shares = ", ".join(f"{counts[status]} {status}" for status in STATUSES)
    lines = [
        _HEAD,
        f"{len(results)} families by {len(measure.METHODS)} methods, {sum(counts.values())} cells: {shares}.",
    ]
    missing = [name for name in FAMILIES if name not in results]
    if missing:
        lines.append(f"\nNot measured in this run: {', '.join(missing)}.")
    for title, methods in TABLES.items():
        lines += ["", f"## {title}", "", *_table(title, methods, results)]
    return "\n".join(lines) + "\n"


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
    note = f", {cell['note']}" if cell["note"] else ""
    if cell["status"] in ("exact", "rounding", "differs"):
        known = cell["in_double"] is not None
        double = f" (float64 {cell['in_double']:.0e}, tape {cell['of_oracle']:.0e})" if known else ""
        return f"{cell['status']} {cell['difference']:.0e}{double}{note}"
    if cell["status"] == "runs":
        return f"runs{note}"
    return f"{cell['status']} [{reasons.setdefault(in_general(cell['note']), len(reasons) + 1)}]"


def _layer(text) -> str:
    named = re.fullmatch(r"(\S+) \(([\d, ]+)\)", text)
    return f"`{named[1].removeprefix('functional_1/')}` {named[2].replace(', ', 'x')}" if named else "–"


def in_general(text: str) -> str:
    """Return a reason without the names of one file's nodes."""
    text = re.sub(r"'/\S*?'", "the file", text)
    text = re.sub(r" \((?:node ')?[\w./-]*/[\w./-]*'?\)", "", text)
    text = re.sub(r"[\w.-]*PartitionedCall[\w./:-]*", "…", text)
    text = re.sub(r" and \d+ more", " and more", text)
    text = re.sub(r"'\w+'(?:, '\w+')+", lambda names: ", ".join(dict.fromkeys(names[0].split(", "))), text)
    return (text if len(text) <= 240 else text[:237] + "...").replace("|", "\\|")


def _row(cells) -> str:
    return "| " + " | ".join(cells) + " |"
