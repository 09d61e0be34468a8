"""Compare the orders of methods when only the definition of a metric changes: a table of docs/libraries.md.

    python -m tools.docs.measure_metric_definitions

Twelve methods are ranked by each metric with a definition of a library and by this project's, on inputs of SVEA, BIM
and CLEVR-XAI. docs/metric_definitions.json keeps the number of each input, so that a stopped run resumes.

Cost: 12 CPU minutes.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.stats import kendalltau

import attribution
from attribution.files import atomic_write
from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.core.tables import markdown_table
from attribution_benchmarks.metrics.registry import select_metrics
from tools.docs.page_parts import ROOT, replace_parts

NUMBERS = ROOT / "docs" / "metric_definitions.json"
METHODS = ("gradient", "gradient_x_input", "integrated_gradients", "smoothgrad", "vargrad", "guided_backprop",
           "deconvnet", "lrp_epsilon", "lrp_alpha1beta0", "occlusion", "deeplift", "excitation_backprop")  # fmt: skip
DEFINITIONS = ("sparseness@quantus", "sparseness@xplique", "complexity@quantus", "complexity@xplique",
               "effective_complexity@quantus", "deletion@xplique", "insertion@xplique", "selectivity@quantus",
               "mu_fidelity@xplique", "pixel_flipping@quantus", "faithfulness_estimate@quantus")  # fmt: skip
_BY_NUMBER = ("pixel_flipping@quantus", "faithfulness_estimate@quantus")  # a pass for each number of the input
COSTLY = {"BIM": _BY_NUMBER, "CLEVR-XAI": (*_BY_NUMBER, "selectivity@quantus", "mu_fidelity@xplique")}  # not computed
OWN = {"pixel_flipping": "deletion"}
INPUTS = {"SVEA": 40, "BIM": 40, "CLEVR-XAI": 40}


def case(place: str) -> tuple[Any, Batch]:
    """Return a network, and inputs with their classes to explain."""
    if place == "CLEVR-XAI":
        from clevr_xai.answering import Answering, Questions
        from clevr_xai.dataset import Dataset
        from clevr_xai.evaluation import draw_rows

        answering = Answering(ROOT / "saved_models" / "clevr_xai" / "relation_network")
        dataset = Dataset("simple", "", answering.size)
        questions = Questions(dataset, draw_rows(len(dataset), INPUTS[place], 0), answering)
        return answering.model, next(iter(questions.batches(INPUTS[place]))).load()
    if place == "BIM":
        from bim.classifiers import classifier_at, input_side, network_inputs
        from bim.dataset import load_set, resolve_data_dir

        model, images = classifier_at(str(ROOT / "saved_models" / "bim" / "obj")), load_set(resolve_data_dir(""), "obj")
        rows = range(0, len(images), len(images) // INPUTS[place])[: INPUTS[place]]
        inputs = network_inputs(images.images(rows), input_side(model))
    else:
        from svea import mnist1d

        model = attribution.load_model(ROOT / "saved_models" / "svea" / "baseline")
        inputs = mnist1d.load().test.signals[: INPUTS[place], :, None]
    return model, Batch(inputs, [f"{place}{number}" for number in range(len(inputs))], model.scores(inputs).argmax(1))


def measure() -> dict[str, dict[str, Any]]:
    """Return each metric's numbers on each benchmark, (methods, inputs); compute and store those that are missing."""
    record = json.loads(NUMBERS.read_text("utf-8")) if NUMBERS.exists() else {}
    for place in INPUTS:
        found = record.setdefault(place, {})
        wanted = itertools.chain.from_iterable((_own(name), name) for name in _definitions(place))
        for name, numbers in _measured(place, [name for name in dict.fromkeys(wanted) if name not in found]):
            found[name] = numbers
            atomic_write(NUMBERS, json.dumps(record) + "\n")
            print(place, name, flush=True)
    return record


def _measured(place: str, names: list[str]) -> Iterator[tuple[str, list[list[float]]]]:
    """Yield the numbers of metrics on a benchmark."""
    if names:
        model, batch = case(place)
        given = {"explain_input": batch.explained or None, "batch_size": 32}
        maps = [attribution.explain(each, model, batch.inputs, batch.targets, **given) for each in METHODS]
    for name in names:
        numbers = [_metric(name).measure.compute(each, batch, model.scores)[:, 0] for each in maps]
        yield name, np.round(numbers, 5).tolist()


def _own(name: str) -> str:
    """Return this project's metric of a library's."""
    metric = name.partition("@")[0]
    return OWN.get(metric, metric)


def _metric(name: str) -> Metric:
    (metric,) = select_metrics([name], {}).values()
    return metric


def _definitions(place: str) -> list[str]:
    return [name for name in DEFINITIONS if name not in COSTLY.get(place, ())]


def rows(record: dict[str, dict[str, Any]]) -> Iterator[list[str]]:
    """Yield the table's row of each definition on each benchmark."""
    pairs = list(itertools.combinations(range(len(METHODS)), 2))
    for place, name in [(one, name) for one in INPUTS for name in _definitions(one)]:
        sign = 1 if _metric(_own(name)).better == "more" else -1
        own, theirs = (sign * np.array(record[place][each]) for each in (_own(name), name))
        ours, others, *halves = (np.nanmean(each, axis=1) for each in (own, theirs, own[:, ::2], own[:, 1::2]))
        flips = sum((ours[a] - ours[b]) * (others[a] - others[b]) < 0 for a, b in pairs)
        taus = [f"{kendalltau(*each).statistic:.2f}" for each in ((ours, others), halves)]
        first = [f"`{METHODS[int(np.argmax(each))]}`" for each in (ours, others)]
        yield [place, f"`{name}`", *taus, f"{flips} of {len(pairs)}", *first]


def main() -> None:
    """Measure what is missing and write the table."""
    head = ["inputs of", "definition", "tau", "tau of halves", "pairs that flip", "first here", "first there"]
    replace_parts(ROOT / "docs" / "libraries.md", {"metric orders": markdown_table(head, list(rows(measure())))})


if __name__ == "__main__":
    main()
