"""Score attribution methods with BIM: MCS, IDR, IIR and relative MCS.

    python -m bim.metrics --metrics=MCS --num_imgs=10
    python -m bim.metrics --metrics=MCS,IDR,IIR,RMCS --num_imgs=all --output=bim.json
    python -m bim.metrics --metrics=MCS --models=obj=my/object_model,scene=my/scene_model
    python -m bim.metrics --metrics=MCS --server=grpc://localhost:8500

The third scores models of your own: SavedModels that take square RGB images minus the channel means, of any size,
and tell the ten objects or the ten scenes in the order of bim/layout.py. The last asks models behind TensorFlow
Serving, with the same scores as from their files: whatever was exported with them (python -m attribution.export) or
can be made of exported gradients, and RISE, occlusion and others that need scores alone, of any served model.

The first run makes the embedded sets, drawn objects on drawn scenes; IIR makes its patches. Scores are kept
in --scores_dir, so another run continues where one ended, and computes anew what a changed model, image,
parameter or seed makes stale.

MCS (model contrast score): how much more a model of objects attributes to the object than a model of scenes.
IDR (input dependence rate): how often the scene model attributes less to the object than to what it covers.
IIR (input independence rate): how often a patch that means nothing to the model changes nothing.
RMCS (relative MCS): MCS of a model that saw dogs in i of 10 scenes against one that saw them in all.

Cost: ten images take 140 CPU seconds and 1.3 GB at the first run, which draws the sets, and 15 at a second, which
computes nothing again.
"""

from __future__ import annotations

import functools
import os
import sys
import textwrap
from collections.abc import Callable

import numpy as np
from absl import flags

from attribution import METHODS, cli
from attribution.errors import BadInput, listed, print_line, print_text
from attribution.file_io.paths import check_directory
from attribution_benchmarks.beam.flags import check_precompute_flags, define_precompute_flags
from attribution_benchmarks.beam.precompute import precompute_from_flags
from attribution_benchmarks.cli.bundled_models import default_model
from attribution_benchmarks.cli.figures import check_plot_format, define_plot_format
from attribution_benchmarks.core import input_scores, manifest, tables
from attribution_benchmarks.core.batch import by_kind
from attribution_benchmarks.core.controls import GROUND_TRUTH
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.core.random_weights import MOST
from attribution_benchmarks.core.rows import control_row, format_controls
from attribution_benchmarks.core.sharded_run import ShardedRun
from attribution_benchmarks.core.store import ScoreStore
from attribution_benchmarks.metrics import registry as metric_registry
from attribution_benchmarks.stats import statistics
from attribution_benchmarks.stats.comparisons import PairComparison, compare_pairs
from bim.attributions import COSTLY, MASKED
from bim.attributions import PRINTED as DEFAULT_METHODS
from bim.compat import define_compat
from bim.controls import CONTROLS
from bim.disk import failures_in_one_line
from bim.evaluate import PATCH_SET, Benchmark, Comparison, members, own_models
from bim.image_scores import image_scores
from bim.layout import CONTRAST_SETS
from bim.patch_cache import patches_for
from bim.scores import (
    METRICS,
    both_correct,
    input_dependence_rate,
    input_independence_rate,
    model_contrast_score,
    relative_model_contrast,
    sample_rows,
)
from bim.served import local_twin

__all__ = [
    "both_correct",
    "input_dependence_rate",
    "input_independence_rate",
    "model_contrast_score",
    "relative_model_contrast",
    "sample_rows",
]

SAVED_MODELS = str(default_model("bim"))
HEADINGS = {
    "MCS": "MCS, model contrast score: object model minus scene model; more is better",
    "IDR": "IDR, input dependence rate: object below the scene it covers; more is better",
    "IIR": "IIR, input independence rate: unchanged by a patch without meaning; more is better",
    "Relative MCS": "Relative MCS: dog in i scenes against dog in all ten",
}

CHECK_OF_SENSE = (
    "a check of the data's sense, no independent result: how the models scene1 to scene10 were trained was chosen "
    "after\nlooking at this score on 60 images of the drawn sets (see their cards)"
)

FLAGS = flags.FlagValues()
cli.define_common_flags(
    FLAGS, methods=list(DEFAULT_METHODS), data_dir="", num_imgs=10, batch_size=16, seed=0, output="", cache_dir="",
    layer="", check_model=False,
)  # fmt: skip
flags.DEFINE_list(
    "metrics",
    ["MCS", "IDR", "IIR"],
    "of MCS, IDR, IIR, RMCS and the metrics of all benchmarks, or file.py:NAME of your own",
    flag_values=FLAGS,
)
flags.DEFINE_string("maps_dir", "", "folder to save maps in, as METHOD/MODEL-SET/IMAGE.npy", flag_values=FLAGS)
flags.DEFINE_string("from_maps", "", "folder of maps to score in place of the models' own", flag_values=FLAGS)
flags.DEFINE_string(
    "models_dir", SAVED_MODELS, "folder of the models obj, scene, scene_only, scene1, ...", flag_values=FLAGS
)
flags.DEFINE_list(
    "models",
    [],
    "SavedModels of your own in place of members, as name=directory,...: obj=my/model,scene=my/other; the names are "
    "obj, scene, scene_only, scene1 to scene10, and the members not named come from --models_dir; with --server, names "
    "of its models, as in obj=my_model or obj=my_model@2",
    flag_values=FLAGS,
)
cli.define_common_flags(FLAGS, trust_model=False)
flags.DEFINE_string(
    "server",
    "",
    "TensorFlow Serving to ask in place of files: grpc://host:8500 or http://host:8501; its models are called bim_obj, "
    "bim_scene, ... unless --models says otherwise",
    flag_values=FLAGS,
)
cli.define_common_flags(FLAGS, deadline=60.0, retry_timeout=120.0)
flags.DEFINE_bool("controls", True, "score random map, centre prior and edge detector too", flag_values=FLAGS)
flags.DEFINE_integer(
    "random_networks", 0, "networks of random weights, in turn shuffled and drawn anew, on which methods are tried, "
    f"all but {listed(COSTLY)}; {listed(MASKED)} on one; none when 0", 0, MOST, flag_values=FLAGS,
)  # fmt: skip
flags.DEFINE_string("compare", "random", "method to compare the others with, image by image", flag_values=FLAGS)
flags.DEFINE_string("scores_dir", "", "folder of stored scores; 'scores' beside the sets when empty", flag_values=FLAGS)
define_compat(FLAGS, "and 0/0 where a map is flat, as in their code")
flags.DEFINE_string("input_scores", "", "file to write every image's scores to; .json", flag_values=FLAGS)
flags.DEFINE_string("plot_dir", "", "folder for pictures: example maps, and a bar chart per metric", flag_values=FLAGS)
define_plot_format(FLAGS)
define_precompute_flags(FLAGS)


def main(flag_values: flags.FlagValues) -> None:
    """Print a table per metric and write what was asked for."""
    metrics, shared = _chosen_metrics(flag_values)
    tables.check_output(flag_values.output)
    if flag_values.input_scores:
        tables.check_output(flag_values.input_scores, suffixes=(".json",), flag="input_scores")
    check_directory("plot_dir", flag_values.plot_dir)
    check_plot_format(flag_values.plot_format)
    check_directory("scores_dir", flag_values.scores_dir)
    check_directory("maps_dir", flag_values.maps_dir)
    if flag_values.from_maps and (flag_values.maps_dir or flag_values.server):
        raise BadInput("--from_maps makes no maps; leave out --maps_dir and --server")
    if flag_values.random_networks and (flag_values.from_maps or flag_values.server):
        raise BadInput("--random_networks needs networks in files; leave it out, or --from_maps and --server")
    if flag_values.random_networks and flag_values.compat == "upstream":
        raise BadInput("--random_networks has no tensors of the authors' names; leave it out, or --compat=upstream")
    if flag_values.server and flag_values.compat == "upstream":
        raise BadInput("--compat=upstream addresses files by tensor names, a server has none; leave one of the two out")
    replaced = own_models(flag_values.models, metrics, served=bool(flag_values.server))
    check_precompute_flags(flag_values)
    from bim.attributions import method_named
    from bim.dataset import resolve_data_dir

    from_maps = None
    if flag_values.from_maps:
        from attribution_benchmarks.core.saved_maps import saved_methods

        from_maps = saved_methods(flag_values.from_maps, flag_values.methods if flag_values["methods"].present else ())
    controls = CONTROLS if flag_values.controls else ()
    named = dict.fromkeys(from_maps if from_maps is not None else flag_values.methods)
    known = {control.name for control in CONTROLS}
    for name in named:
        if name in known:
            raise BadInput(f"'{name}' is a control, which is scored anyway; leave it out of --methods")
    methods = {} if from_maps is not None else {name: method_named(name) for name in named}
    names = [*named, *(control.name for control in controls)]
    if not names:
        raise BadInput("--methods is empty and there are no controls; name at least one method")
    if flag_values["compare"].present and flag_values.compare and flag_values.compare not in names:
        raise BadInput(f"--compare={flag_values.compare} is not scored; choose one of {listed(names)}")
    client = None
    if flag_values.server:
        from attribution_benchmarks import serving

        client = serving.Client(
            flag_values.server, deadline=flag_values.deadline, retry_timeout=flag_values.retry_timeout
        )
        methods = {name: serving.as_served(method) for name, method in methods.items()}
    data_dir = resolve_data_dir(flag_values.data_dir)
    scores_dir = flag_values.scores_dir or os.path.join(data_dir, "scores")
    benchmark = _benchmark(
        flag_values, data_dir, methods, ScoreStore(None if from_maps is not None else scores_dir), shared, replaced,
        client=client, from_maps=from_maps, progress=True,
    )  # fmt: skip
    benchmark.check(metrics)
    _tell_models(benchmark)
    if flag_values.check_model:
        for line in _fits(benchmark, metrics):
            print_line(line)
        return
    if flag_values.maps_dir:
        benchmark.maps_directory = _maps_directory(flag_values, benchmark)
    _live_networks(benchmark)
    if "IIR" in metrics and flag_values.data_dir:
        patches_for(benchmark, made_here=False)  # what is wrong with them is said before any work
    precompute = precompute_from_flags(flag_values, "bim.metrics", scores_dir)
    if precompute:
        if "IIR" in metrics:
            patches_for(benchmark, made_here=not flag_values.data_dir)
        for together in benchmark.rounds(metrics):
            benchmark.leave_out(precompute(together))
    titles = {name: methods[name].title if name in methods else name for name in named}
    titles |= {control.name: control.title for control in (*CONTROLS, GROUND_TRUTH)}
    rows, comparisons, patches, printed = [], [], None, []
    for metric in metrics:
        if metric == "IIR":
            patches = patches_for(benchmark, made_here=not flag_values.data_dir)
        compared = benchmark.compare(metric)
        found = score_rows(compared, flag_values.compare, flag_values.seed)
        comparisons += compared
        rows += found + curve_rows(compared, flag_values.seed)
        parts = [table(METRICS.get(metric) or shared[metric], found, titles)]
        if metric == "RMCS" and _any_embedded(benchmark):
            parts.append(CHECK_OF_SENSE + "\n")
        if metric == "IIR" and patches:
            parts.append(patches.summary() + "\n")
        print_text("\n".join(parts) + "\n", flush=True)
        printed += parts
    description = manifest.describe_run(
        "bim",
        {name: model.fingerprint for name, model in benchmark.models.items()},
        {name: images.fingerprint() for name, images in benchmark.sets.items()},
        flag_values.seed,
        manifest.command_of("python -m bim.metrics", flag_values),
    )
    if flag_values.output:
        tables.save(flag_values.output, rows, description, text="\n".join(printed))
    if flag_values.input_scores:
        input_scores.save(flag_values.input_scores, "bim", image_scores(comparisons))
    if flag_values.plot_dir:
        from bim import shown
        from bim.pictures import NUM_EXAMPLES, write_pictures

        with failures_in_one_line():
            places = shown.places(benchmark, comparisons, NUM_EXAMPLES)
            write_pictures(flag_values.plot_dir, benchmark, metrics, rows, titles, places, flag_values.plot_format)
            shown.save(flag_values.plot_dir, benchmark, comparisons)
    print_line(f"scores kept in {scores_dir}", file=sys.stderr)


def works(flag_values: flags.FlagValues) -> Callable[[str], ShardedRun]:
    """Return a function from "obj-obj" and so on to what this command explains and measures there, for workers."""
    from bim.attributions import method_named
    from bim.dataset import resolve_data_dir

    metrics, shared = _chosen_metrics(flag_values)
    benchmark = _benchmark(
        flag_values, resolve_data_dir(flag_values.data_dir), {name: method_named(name) for name in flag_values.methods},
        None, shared, own_models(flag_values.models, metrics),
    )  # fmt: skip

    @functools.cache
    def work(name: str) -> ShardedRun:
        model_name, _, set_name = name.partition("-")
        benchmark.model(model_name)
        _live_networks(benchmark)
        if flag_values.maps_dir:
            for pair in (pair for metric in metrics for pair in members(metric)):
                benchmark.model(pair[0])  # their fingerprints stand beside saved maps
            benchmark.maps_directory = _maps_directory(flag_values, benchmark)
        return benchmark.sharded_run(model_name, set_name)

    return work


def _chosen_metrics(flag_values) -> tuple[list[str], dict[str, Metric]]:
    """Return the metrics of the run by name, and those of them that are of all benchmarks."""
    chosen = metric_registry.select_metrics([_as_written(name) for name in flag_values.metrics], METRICS)
    shared = {name: metric for name, metric in chosen.items() if metric not in METRICS.values()}
    metrics = [next((known for known in METRICS if METRICS[known] is metric), name) for name, metric in chosen.items()]
    return metrics, shared


def _benchmark(flag_values, data_dir, methods, store, shared, replaced, **more) -> Benchmark:
    return Benchmark(
        data_dir,
        flag_values.models_dir,
        methods,
        store,
        CONTROLS if flag_values.controls else (),
        shared,
        flag_values.num_imgs if flag_values.num_imgs == "all" else int(flag_values.num_imgs),
        flag_values.seed,
        flag_values.batch_size,
        flag_values.compat == "upstream",
        own_models=replaced,
        layer=flag_values.layer,
        random_networks=flag_values.random_networks,
        **more,
    )


def _live_networks(benchmark: Benchmark) -> None:
    """Give the loaded models their live networks where methods of other libraries need them, else offer them."""
    if any(method.library for method in benchmark.methods.values()):
        benchmark.attach_live_networks()
    else:
        benchmark.offer_live_networks()


def score_rows(comparisons: list[Comparison], compared_with: str = "random", seed: int = 0) -> list[dict]:
    """Return scores in long form, one dictionary per method and metric.

    Parameters
    ----------
    comparisons
        From ``Benchmark.compare``.
    compared_with
        Method whose values the others' are compared with, image by image; without effect where it was not
        scored.
    seed
        Seed of intervals and tests.

    Returns
    -------
    list of dict
        Keys of ``core.tables`` and: ``scene_model`` (RMCS), ``drawn`` images, ``flat`` maps,
        ``difference`` and ``p_value`` against ``compared_with``, ``reason`` where there is no value. Behind them the
        rows of methods' own maps under a control, see ``core.rows.control_row``.
    """
    asked = [each for each in comparisons if each.label is None]
    tests = _tests(asked, compared_with, seed)
    rows = []
    for comparison in asked:
        row = {"method": comparison.method, "metric": comparison.metric_name}
        if comparison.scene_model is not None:
            row["scene_model"] = comparison.scene_model
        values = comparison.values
        nan = int(np.isnan(values).sum())
        if not len(values):
            row["reason"] = "no image is classified correctly by both"
        elif nan and comparison.metric in METRICS:
            row["reason"] = f"{nan} maps are flat, which upstream turns into 0 / 0"
        elif nan:
            row["reason"] = f"undefined for {nan} images"
        defined = len(values) and not nan
        own = METRICS.get(comparison.metric)
        known = own or metric_registry.METRIC_REGISTRY.get(comparison.metric)
        estimate = statistics.mean_interval(
            values if defined else [],
            seed=seed,
            clusters=comparison.clusters if defined else None,
            rate=known.hit if known else None,
            bounds=(-1.0, 1.0) if own else known.bounds if known else None,
        )
        row.update(
            value=estimate.value, low=estimate.low, high=estimate.high, n=len(values), paper=None,
            kind=_kind_of(comparison.method),
            drawn=comparison.drawn, flat=comparison.flat,
        )  # fmt: skip
        paired = tests.get((comparison.metric, comparison.scene_model, comparison.method))
        if paired:
            row.update(compared_with=compared_with, difference=paired.difference, p_value=paired.p_value)
        rows.append(row)
    return rows + _own_rows(comparisons, seed)


def _own_rows(comparisons: list[Comparison], seed: int) -> list[dict]:
    """Return the scores of methods' own maps under a control, see ``core.rows.control_row``."""
    groups: dict[tuple[str, int | None], dict] = {}
    for one in comparisons:
        if one.label is not None:
            groups.setdefault((one.metric, one.scene_model), {})[one.label] = one
    rows = []
    for (metric, number), found in groups.items():
        known = METRICS.get(metric) or metric_registry.METRIC_REGISTRY.get(metric)
        for label, alike in by_kind(found).items():
            first, values = found[alike[0]], np.array([found[one].values for one in alike])
            defined = values.size and not np.isnan(values).any()
            row = control_row(
                label,
                first.metric_name,
                values if defined else values[:, :0],
                known.hit if known else None,
                seed=seed,
                clusters=first.clusters if defined else None,
                bounds=(-1.0, 1.0) if metric in METRICS else known.bounds if known else None,
            )
            row["n"] = values.shape[1]
            if number is not None:
                row["scene_model"] = number
            rows.append(row)
    return rows


def _tests(comparisons: list[Comparison], compared_with: str, seed: int) -> dict[tuple, PairComparison]:
    """Return the tests of methods against one of them, by metric, scene model and method."""
    groups: dict[tuple, dict[str, Comparison]] = {}
    for one in comparisons:
        if len(one.values) and not np.isnan(one.values).any():
            groups.setdefault((one.metric, one.scene_model), {})[one.method] = one
    return {
        (*place, test.first): test
        for place, group in groups.items()
        if compared_with in group
        for test in compare_pairs(
            {method: one.values for method, one in group.items()},
            [(method, compared_with) for method in group if method != compared_with],
            group[compared_with].clusters,
            seed=seed,
        )
    }


def curve_rows(comparisons: list[Comparison], seed: int = 0) -> list[dict]:
    """Return the curves behind scores in long form, one dictionary a point; see ``scoring.curves``."""
    from attribution_benchmarks.metrics import curves

    return [
        {"method": one.method, **point, "kind": _kind_of(one.method)}
        for one in comparisons
        if one.curves is not None and one.metric in metric_registry.METRIC_REGISTRY and one.label is None
        for point in curves.points(metric_registry.METRIC_REGISTRY[one.metric], one.curves, one.clusters, seed)
    ]


def _kind_of(method: str) -> str:
    """Return "control", "peer" for a method of another library, or "method" for any other."""
    if any(method == control.name for control in (*CONTROLS, GROUND_TRUTH)):
        return "control"
    return "peer" if method in METHODS and METHODS[method].library else "method"


def table(metric: Metric, rows: list[dict], titles: dict[str, str]) -> str:
    """Return one metric's scores for reading."""
    own_maps = [row for row in rows if "of" in row]
    rows = [row for row in rows if "of" not in row]
    drawn, counted = max(row["drawn"] for row in rows), sorted({row["n"] for row in rows})
    shown = str(counted[0]) if len(counted) == 1 else f"{counted[0]} to {counted[-1]}"
    own = metric in METRICS.values()
    heading = HEADINGS[metric.title] if own else f"{metric.title}; {metric.better} is better; object model on its set"
    lines = [heading, f"{drawn} images drawn, {shown} classified correctly{' by both' if own else ''} and counted"]
    if metric is METRICS["RMCS"]:
        numbers = sorted({row["scene_model"] for row in rows})
        cells = {(row["method"], row["scene_model"]): row for row in rows}
        header = ["method", *(f"i={number}" for number in numbers)]
        body = [
            [titles[name], *(_figure(cells[name, number]["value"]) for number in numbers)]
            for name in dict.fromkeys(row["method"] for row in rows)
        ]
    else:
        other = next((row["compared_with"] for row in rows if "compared_with" in row), None)
        header = ["method", metric.title, "95 %", "flat maps", *([f"minus {other}", "p"] if other else [])]
        body, kind = [], "method"
        for row in rows:
            if row["kind"] != kind:
                body.append([])
                kind = row["kind"]
            line = [
                titles[row["method"]],
                _figure(row["value"]),
                f"{_figure(row['low'])}, {_figure(row['high'])}",
                str(row["flat"]),
            ]
            if other:
                line += [_figure(row.get("difference")), _figure(row.get("p_value"), 4)]
            body.append(line)
    lines.append(tables.text_table(header, body).rstrip())
    reasons = {f"{titles[row['method']]}: {row['reason']}" for row in rows if "reason" in row}
    return "\n".join([*lines, *sorted(reasons), *_on_random_networks(metric, own_maps, titles), ""])


def _on_random_networks(metric: Metric, rows: list[dict], titles: dict[str, str]) -> list[str]:
    """Say what is left of the methods' scores on networks that have learnt nothing."""
    if not rows or metric is METRICS["RMCS"]:  # whose curve is the score
        return []
    each, count = format_controls(rows, titles, _figure)
    several = f", mean over {count} [least, largest]" if count > 1 else ""
    text = f"The methods' own maps on networks of random weights{several}: {each}."
    return textwrap.wrap(text, 118)


def _figure(value, decimals: int = 3) -> str:
    """Return a number for a table, or a dash for what does not exist."""
    return "–" if value is None or not np.isfinite(value) else f"{value:.{decimals}f}"


def _as_written(name: str) -> str:
    """Return BIM's metrics in capitals, as its paper has them; others as they are."""
    return name.upper() if name.upper() in METRICS else name


def _fits(benchmark: Benchmark, metrics) -> list[str]:
    """Say of every model how it does on images of its set."""
    found = []
    for name, set_name in dict.fromkeys(pair for metric in metrics for pair in members(metric)):
        if set_name == PATCH_SET:
            continue
        member, rows = benchmark.member(name, set_name), benchmark.drawn(set_name)
        batch = member.batch(rows)
        right = int((member.model.predict(batch.inputs, benchmark.batch_size) == member.images.labels[rows]).sum())
        found.append(
            f"{name} fits BIM: images (batch, {batch.inputs.shape[1]}, {batch.inputs.shape[2]}, 3) to ten classes, "
            f"{right} of {len(rows)} images of {set_name} right"
        )
    return found


def _tell_models(benchmark: Benchmark) -> None:
    """Say whose models are scored, which have no layer of the authors' name, and what stands for it."""
    from bim.attributions import CAM_LAYER, cam_layer

    if benchmark.own_models:
        own = ", ".join(f"{name} ({path})" for name, path in benchmark.own_models.items())
        others = ", ".join(name for name in benchmark.models if name not in benchmark.own_models)
        print_line(f"your own: {own}" + (f"; of --models_dir: {others}" if others else ""), file=sys.stderr)
    if not any("layer" in method.defaults for method in benchmark.methods.values()) or benchmark.client is not None:
        return
    for name, model in benchmark.models.items():
        if cam_layer(model, benchmark.layer) is None:
            print_line(
                f"{name} has no layer '{CAM_LAYER}'; its class activation maps are of {model.layer(None)} (--layer)",
                file=sys.stderr,
            )


def _maps_directory(flag_values, benchmark: Benchmark):
    """Return where maps are saved."""
    from attribution_benchmarks.core.saved_maps import MapsDirectory

    models = {name: model.fingerprint for name, model in benchmark.models.items()}
    origin = {"benchmark": "bim", "models": models, "seed": flag_values.seed, "layer": flag_values.layer}
    return MapsDirectory(flag_values.maps_dir, origin)


def _any_embedded(benchmark: Benchmark) -> bool:
    """Return whether one of the scored contrast models is one that comes with the repository."""
    if benchmark.client is not None:
        return any(local_twin(SAVED_MODELS, name, benchmark.models[name]) for name in CONTRAST_SETS)
    embedded = os.path.realpath(SAVED_MODELS)
    own, folder = benchmark.own_models, benchmark.models_dir
    paths = (os.path.realpath(own.get(name, os.path.join(folder, name))) for name in CONTRAST_SETS)
    return any(os.path.commonpath([path, embedded]) == embedded for path in paths)


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
