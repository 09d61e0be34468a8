"""Score attribution methods on a benchmark that is one definition: a network, inputs, and metrics of maps.

    python -m attribution_benchmarks.core.evaluate --benchmark=my_file.py:MINE
    python -m attribution_benchmarks.core.evaluate --benchmark=my_file.py:MINE --methods=rise --output=scores.json

docs/extend.md shows how to write one.

Cost: each method's passes (docs/methods.md) for each of --num_imgs inputs, 100 by default.
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from absl import flags

from attribution import cli
from attribution.errors import BadInput, listed, print_text
from attribution.file_io.paths import check_directory
from attribution.file_io.remote_files import origin
from attribution_benchmarks.beam.flags import define_precompute_flags
from attribution_benchmarks.beam.precompute import precompute_from_flags
from attribution_benchmarks.core import input_scores, manifest, tables
from attribution_benchmarks.core.batch import MapSource, by_kind
from attribution_benchmarks.core.definition import Benchmark
from attribution_benchmarks.core.evaluator import Evaluator, Results
from attribution_benchmarks.core.examples import Examples
from attribution_benchmarks.core.input_scores import InputScores
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.core.random_weights import MOST, NETWORKS, networks
from attribution_benchmarks.core.registry import benchmark_named
from attribution_benchmarks.core.sharded_run import ShardedRun
from attribution_benchmarks.core.store import ScoreStore
from attribution_benchmarks.metrics import curves
from attribution_benchmarks.metrics.registry import select_metrics
from attribution_benchmarks.stats import statistics

FLAGS = flags.FlagValues()
cli.define_common_flags(FLAGS, methods=[], model="", num_imgs=100, batch_size=32, seed=0, output="")
FLAGS["methods"].help += "; the benchmark's own when empty"
FLAGS["num_imgs"].help = "how many inputs to score: a number, or 'all'"
flags.DEFINE_string("benchmark", "", "the definition: file.py:NAME or module:NAME", flag_values=FLAGS)
flags.DEFINE_list("metrics", [], "its metrics by name; all of its own when empty", flag_values=FLAGS)
flags.DEFINE_integer(
    "random_networks", NETWORKS, "networks of random weights, if they are a control of the benchmark", 1, MOST,
    flag_values=FLAGS,
)  # fmt: skip
flags.DEFINE_string("scores_dir", "", "folder to keep scores in, so that none is computed twice", flag_values=FLAGS)
flags.DEFINE_string("input_scores", "", "file to write every input's scores to; .json", flag_values=FLAGS)
flags.DEFINE_string("maps_dir", "", "folder to save maps in, as METHOD/INPUT.npy", flag_values=FLAGS)
flags.DEFINE_string("from_maps", "", "folder of maps to score in place of the network's own", flag_values=FLAGS)
define_precompute_flags(FLAGS)


def main(flag_values: flags.FlagValues) -> None:
    """Check everything the user gave, score, print, save."""
    tables.check_output(flag_values.output)
    if flag_values.input_scores:
        tables.check_output(flag_values.input_scores, suffixes=(".json",), flag="input_scores")
    for flag in ("scores_dir", "maps_dir"):
        check_directory(flag, flag_values[flag].value)
    precompute = precompute_from_flags(flag_values, "attribution_benchmarks.core.evaluate", flag_values.scores_dir)
    benchmark, metrics = _benchmark_and_metrics(flag_values)
    examples = _examples(flag_values, benchmark)
    explainer, models = _explainer(flag_values, benchmark)
    maps_directory = _maps_directory(flag_values, benchmark, models)
    store = ScoreStore(flag_values.scores_dir or None)
    if precompute:
        whole = _sharded_run(flag_values, benchmark, examples, explainer, metrics, store, maps_directory)
        failed = precompute([whole]).get(whole.name, [])
        examples = examples.without(failed) if failed else examples
    scored = score(benchmark, examples, explainer, metrics, store, flag_values.batch_size, maps_directory)
    groups = values(benchmark, examples, scored, metrics)
    rows = long_rows(explainer.sources, groups, metrics, flag_values.seed)
    rows += curve_rows(scored, rows, metrics, examples.clusters, flag_values.seed)
    heading = [f"{benchmark.title}: {len(examples.names):,} inputs, {', '.join(models) or 'saved maps'}"]
    shown = {name: metric.title for name, metric in metrics.items()}
    decimals = {name: 1 if metric.percent else 3 for name, metric in metrics.items()}
    laid_out = [
        tables.wide(rows, shown, titles(benchmark, explainer), markdown=markdown, decimals=decimals)
        for markdown in (False, True)
    ]
    print_text(tables.report(heading, laid_out[0], _undefined(groups), width=118), flush=True)
    if flag_values.output:
        run = manifest.describe_run(
            benchmark.name, models, {benchmark.name: examples_fingerprint(scored)}, flag_values.seed,
            manifest.command_of("python -m attribution_benchmarks.core.evaluate", flag_values),
        )  # fmt: skip
        tables.save(flag_values.output, rows, run, text=laid_out[0], markdown=laid_out[1])
    if flag_values.input_scores:
        input_scores.save(flag_values.input_scores, benchmark.name, groups)


def works(flag_values: flags.FlagValues) -> Callable[[str], ShardedRun]:
    """Return a function from the benchmark's name to what this command explains and measures, for workers."""
    benchmark, metrics = _benchmark_and_metrics(flag_values)
    examples = _examples(flag_values, benchmark)
    explainer, models = _explainer(flag_values, benchmark)
    maps_directory = _maps_directory(flag_values, benchmark, models)
    found = _sharded_run(flag_values, benchmark, examples, explainer, metrics, None, maps_directory)
    return {found.name: found}.__getitem__


def _sharded_run(flag_values, benchmark, examples, explainer, metrics, store, maps_directory) -> ShardedRun:
    run = _run(benchmark, examples, explainer, metrics, store, maps_directory)
    return ShardedRun(
        benchmark.name, run, range(len(examples.names)), flag_values.batch_size,
        lambda rows, size: examples.batches(size, rows),
    )  # fmt: skip


def own_metrics(benchmark: Benchmark) -> dict[str, Metric]:
    """Return a definition's own metrics by name."""
    return {metric.name: metric for metric in benchmark.metrics}


def score(
    benchmark: Benchmark,
    examples: Examples,
    explainer: Any,
    metrics: Mapping[str, Metric],
    store: ScoreStore | None = None,
    batch_size: int = 32,
    maps_directory: Any = None,
    progress: bool = True,
) -> Results:
    """Explain examples and measure the maps under some metrics.

    Raises
    ------
    BadInput
        If a metric needs to know where a map should be, and the benchmark does not.
    """
    import tqdm

    run = _run(benchmark, examples, explainer, metrics, store, maps_directory)
    with tqdm.tqdm(total=len(examples.names), desc=benchmark.title, unit="input", disable=not progress) as bar:
        return run.run(examples.batches(batch_size), bar.update)


def _run(benchmark, examples, explainer, metrics, store, maps_directory) -> Evaluator:
    for metric in metrics.values():
        if metric.masks and not examples.masks:
            raise BadInput(f"the metric '{metric.name}' needs masks, and {benchmark.title} has none")
    model = getattr(explainer, "model", None)
    key = {"benchmark": benchmark.name, "model": model.fingerprint if model else ""}
    return Evaluator(explainer, [metric.measure for metric in metrics.values()], key, [benchmark.examples], store,
               maps_directory=maps_directory)  # fmt: skip


def values(
    benchmark: Benchmark, examples: Examples, scored: Results, metrics: Mapping[str, Metric]
) -> list[InputScores]:
    """Return every input's value under every metric."""
    return [
        InputScores(
            {"metric": name},
            list(examples.names),
            {source.name: scored.numbers(source, metric.measure)[:, 0] for source in scored.sources},
            examples.clusters,
        )
        for name, metric in metrics.items()
    ]


def long_rows(
    sources: Sequence[MapSource], groups: Sequence[InputScores], metrics: Mapping[str, Metric], seed: int
) -> list[dict]:
    """Return the scores in long form; inputs for which a metric is undefined are left out and counted.

    Of several random networks there is one row a method, of each input's mean over them, with the networks' means in
    ``networks``.
    """
    from attribution import METHODS

    rows = []
    for group in groups:
        metric = metrics[group.where["metric"]]
        for source, members in by_kind(sources).items():
            columns = np.array([group.values[member.name] for member in members], np.float64)
            numbers = columns.mean(axis=0)
            defined = np.isfinite(numbers)
            clusters = None if group.clusters is None else np.asarray(group.clusters)[defined]
            estimate = statistics.mean_interval(
                numbers[defined], seed=seed, clusters=clusters, rate=metric.hit if len(members) == 1 else None,
                bounds=metric.bounds,
            )  # fmt: skip
            row = {
                "method": source.name, "metric": group.where["metric"], **estimate._asdict(), "paper": None,
                "kind": "control" if source.control else _kind_of(source.method, METHODS),
                "undefined": int((~defined).sum()),
            }  # fmt: skip
            if source.method and source.control:
                row.update(of=source.method, control=source.control)
                if source not in members:
                    row["networks"] = columns[:, defined].mean(axis=1).tolist()
            if not defined.any():
                row["reason"] = "undefined for every input"
            rows.append(row)
    return rows


def curve_rows(
    scored: Results, rows: Sequence[Mapping], metrics: Mapping[str, Metric], clusters: Sequence | None, seed: int
) -> list[dict]:
    """Return the curves behind scores in long form, a point a row, of methods as asked and controls."""
    kinds = {row["method"]: row["kind"] for row in rows}
    return [
        {"method": source.name, **point, "kind": kinds[source.name]}
        for metric in metrics.values()
        if metric.curve
        for source in scored.sources
        if not (source.method and source.control)
        for point in curves.points(metric, scored.numbers(source, metric.measure)[:, 1:], clusters, seed)
    ]


def titles(benchmark: Benchmark, explainer: Any) -> dict[str, str]:
    """Return method or control -> the name to print; of a custom method that of its function."""
    from attribution import METHODS

    named = {name: METHODS[name].title if name in METHODS else name.rpartition(":")[2] for name in _methods(explainer)}
    named |= dict(benchmark.method_titles)
    found = {**named, **{control.name: control.title for control in benchmark.controls}}
    for source in by_kind(explainer.sources):
        if source.method and source.control:
            found[source.name] = f"{named[source.method]} ({found[source.control]})"
    return found


def examples_fingerprint(scored: Results) -> str:
    """Return a hash of all inputs and what is known of them."""
    import hashlib

    return hashlib.sha256("\n".join(scored.names).encode()).hexdigest()


def _methods(explainer) -> list[str]:
    return list(dict.fromkeys(source.method for source in explainer.sources if source.method))


def _kind_of(method: str, registry) -> str:
    return "peer" if method in registry and registry[method].library else "method"


def _undefined(groups: Sequence[InputScores]) -> list[str]:
    lines = []
    for group in groups:
        counts = {name: int(np.isnan(np.asarray(column, np.float64)).sum()) for name, column in group.values.items()}
        metric = group.where["metric"]
        if len(counts) > 1 and len(set(counts.values())) == 1 and any(counts.values()):
            lines.append(f"{metric} is undefined for {next(iter(counts.values()))} inputs, which are left out.")
            continue
        told = ", ".join(f"{name} {count}" for name, count in counts.items() if count)
        if told:
            lines.append(f"{metric} is undefined for some inputs, which are left out: {told}.")
    return lines


def _benchmark_and_metrics(flag_values) -> tuple[Benchmark, dict[str, Metric]]:
    if not flag_values.benchmark:
        raise BadInput("--benchmark is missing; name a definition, such as --benchmark=my_file.py:MINE")
    benchmark = benchmark_named(flag_values.benchmark)
    if benchmark.examples is None:
        raise BadInput(f"{benchmark.title} has commands of its own; see the README")
    return benchmark, select_metrics(flag_values.metrics or own_metrics(benchmark), own_metrics(benchmark))


def _examples(flag_values, benchmark: Benchmark) -> Examples:
    count = sys.maxsize if flag_values.num_imgs == "all" else int(flag_values.num_imgs)
    return benchmark.examples(count, flag_values.seed)


def _maps_directory(flag_values, benchmark: Benchmark, models: Mapping[str, str]):
    """Return where maps are saved; None where they are not."""
    if not flag_values.maps_dir:
        return None
    from attribution_benchmarks.core.saved_maps import MapsDirectory

    origin = {"benchmark": benchmark.name, "models": models, "seed": flag_values.seed}
    return MapsDirectory(flag_values.maps_dir, origin)


def _explainer(flag_values, benchmark: Benchmark):
    """Return what makes the maps, and the fingerprints of what it asks."""
    if flag_values.from_maps:
        if flag_values.model or flag_values.maps_dir:
            raise BadInput("--from_maps asks no network for maps; leave out --model and --maps_dir")
        from attribution_benchmarks.core.saved_maps import SavedMaps, saved_methods

        return SavedMaps(saved_methods(flag_values.from_maps, flag_values.methods), benchmark.controls,
                         flag_values.seed), {}  # fmt: skip
    import attribution
    from attribution_benchmarks.core.explainer import Explainer

    names = list(dict.fromkeys(flag_values.methods or benchmark.methods))
    if not names:
        raise BadInput(f"--methods is empty, and {benchmark.title} names none; choose of {listed(attribution.METHODS)}")
    path = pathlib.Path(flag_values.model or benchmark.network)
    methods = {name: attribution.resolve_method(name) for name in names}
    model = attribution.load_model(path, score=benchmark.score)
    controls = networks(benchmark.controls, flag_values.random_networks)
    explainer = Explainer(model, methods, controls, seed=flag_values.seed, batch_size=flag_values.batch_size)
    return explainer, {origin(path) if flag_values.model else path.name: model.fingerprint}


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
