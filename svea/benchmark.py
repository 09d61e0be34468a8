"""Score attribution methods on SVEA: its Table 1, with controls, intervals and the paper's figures beside ours.

    python -m svea.benchmark
    python -m svea.benchmark --models=saved_models/svea/baseline,saved_models/svea/baseline_seed1
    python -m svea.benchmark --model=path/to/saved_model --methods=rise,my_module:my_method --output=scores.json

    python -m svea.benchmark --from_maps=my/maps

With --scores_dir, a run that was stopped goes on where it stood, and one that ended costs next to nothing again.
--maps_dir saves every map as METHOD/train_0000.npy or METHOD/test_0000.npy, and --from_maps scores maps that were made
elsewhere.

Every method explains the probability of the predicted class for all 5,000 signals of MNIST-1D. ROE test: how often a
linear support vector machine tells the class from the 12 points around the map's peak (higher is better). Drop and
Increase: what becomes of the network's confidence when it sees these points alone.

Cost: 40 to 50 seconds on two cores and under 1 GB.
"""

from __future__ import annotations

import functools
import pathlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from absl import flags

from attribution import cli
from attribution.errors import BadInput, listed, print_line, print_text
from attribution.file_io.paths import check_directory
from attribution_benchmarks.beam.flags import define_precompute_flags
from attribution_benchmarks.beam.precompute import precompute_from_flags
from attribution_benchmarks.cli.bundled_models import default_model, shown_model
from attribution_benchmarks.cli.figures import check_plot_format, define_plot_format
from attribution_benchmarks.core import input_scores, manifest, tables
from attribution_benchmarks.core.random_weights import MOST
from attribution_benchmarks.core.store import ScoreStore
from attribution_benchmarks.metrics import registry as metric_registry
from svea import methods as svea_methods
from svea import paper_table
from svea.metrics import METRICS

if TYPE_CHECKING:
    from attribution_benchmarks.core.sharded_run import ShardedRun

DEFAULT_MODEL = default_model("svea/baseline")

FLAGS = flags.FlagValues()
cli.define_common_flags(
    FLAGS, methods=list(svea_methods.METHODS), model="", batch_size=1000, seed=0, output="", layer="", check_model=False
)
flags.DEFINE_list(
    "models",
    [],
    "directories of several SavedModels, separated by commas: mean and standard deviation over them",
    flag_values=FLAGS,
)
flags.DEFINE_integer("rise_masks", svea_methods.RISE_MASKS, "masks of RISE", lower_bound=1, flag_values=FLAGS)
flags.DEFINE_list(
    "metrics",
    list(METRICS),
    "of roe_test, drop, increase and the metrics of all benchmarks, or file.py:NAME of your own",
    flag_values=FLAGS,
)
flags.DEFINE_integer(
    "random_networks", 0, "networks of random weights, in turn shuffled and drawn anew, on which methods are tried, "
    f"all but {listed(svea_methods.COSTLY)}; none when 0", 0, MOST, flag_values=FLAGS,
)  # fmt: skip
flags.DEFINE_string("maps_dir", "", "directory to save maps in, as METHOD/SIGNAL.npy", flag_values=FLAGS)
flags.DEFINE_string("from_maps", "", "directory of maps to score in place of the network's own", flag_values=FLAGS)
flags.DEFINE_string("plot_dir", "", "directory to write figures to", flag_values=FLAGS)
define_plot_format(FLAGS)
flags.DEFINE_string("scores_dir", "", "directory to keep regions in, so that none is computed twice", flag_values=FLAGS)
flags.DEFINE_string("input_scores", "", "file to write every signal's scores to; .json", flag_values=FLAGS)
define_precompute_flags(FLAGS)


def main(flag_values: flags.FlagValues) -> None:
    """Check everything the user gave, score, print, save."""
    tables.check_output(flag_values.output)
    if flag_values.input_scores:
        tables.check_output(flag_values.input_scores, suffixes=(".json",), flag="input_scores")
    plot_dir = _checked_directory("plot_dir", flag_values.plot_dir)
    check_plot_format(flag_values.plot_format)
    scores_dir = _checked_directory("scores_dir", flag_values.scores_dir)
    _checked_directory("maps_dir", flag_values.maps_dir)
    metrics = metric_registry.select_metrics(flag_values.metrics, METRICS)
    if flag_values.from_maps and flag_values.maps_dir:
        raise BadInput("--from_maps and --maps_dir were both given; --from_maps makes no maps that could be saved")
    asked = flag_values.methods if flag_values["methods"].present or not flag_values.from_maps else []
    chosen = {} if flag_values.from_maps else svea_methods.settings(asked, flag_values.rise_masks, flag_values.layer)
    paths = _model_paths(flag_values)
    if len(paths) > 1 and (flag_values.maps_dir or flag_values.from_maps):
        raise BadInput("maps are of one network; give one with --model=")

    precompute = precompute_from_flags(flag_values, "svea.benchmark", flag_values.scores_dir)
    from svea import commentary, mnist1d, scoring, table  # --help must not wait for scikit-learn and TensorFlow

    models = {shown_model(path): _loaded(path, chosen) for path in paths}
    data = mnist1d.load()
    if flag_values.layer:
        for model in models.values():
            model.layer(flag_values.layer)  # refuses a layer that is none
    if flag_values.check_model:
        for name, model in models.items():
            print_line(scoring.fit(name, model, data, flag_values.layer))
        return
    store = ScoreStore(str(scores_dir)) if scores_dir else None
    own_metrics = {name: metric for name, metric in metrics.items() if name not in METRICS}
    if precompute:
        store = store or ScoreStore(None)  # one for precomputing and for the table
        failed = precompute(
            [_sharded_run(flag_values, *named, data, chosen, own_metrics, store) for named in models.items()]
        )
        if failed:
            raise BadInput("SVEA needs the regions of all signals; what is computed is kept, so run the command again")
    networks, explainers = [], []
    for number, (name, model) in enumerate(models.items(), start=1):
        if len(models) > 1:
            print_line(f"network {number} of {len(models)}: {name}", file=sys.stderr)
        explainers.append(
            _saved_maps(flag_values, asked, model) if flag_values.from_maps else _explainer(flag_values, model, chosen)
        )
        networks.append(
            scoring.score_network(
                model,
                data,
                explainers[-1],
                own_metrics,
                flag_values.batch_size,
                store,
                _maps_directory(flag_values, model, chosen) if flag_values.maps_dir else None,
                progress=True,
            )
        )

    rows = table.long_rows(networks, metrics, flag_values.seed)
    titles = table.titles(networks)
    heading = [
        f"{name}: accuracy {network.accuracy(data):.1f} % on {mnist1d.TEST_SIGNALS:,} test signals "
        f"(paper's network: {paper_table.BASELINE_ACCURACY} %)"
        for name, network in zip(models, networks, strict=True)
    ]
    notes = commentary.findings(networks, rows, titles, flag_values.seed, list(models))
    shown = {name: metric.title for name, metric in metrics.items()}
    decimals = {name: 1 if metric.percent else 3 for name, metric in metrics.items()}
    printed = [row for row in rows if "of" not in row]
    text = tables.report(heading, tables.wide(printed, shown, titles, decimals=decimals), notes, width=118)
    print_text(text)
    if flag_values.output:
        run = manifest.describe_run(
            "svea",
            models={name: model.fingerprint for name, model in models.items()},
            data={"mnist1d": mnist1d.FINGERPRINT},
            seed=flag_values.seed,
            command=manifest.command_of("python -m svea.benchmark", flag_values),
        )
        laid_out = tables.wide(printed, shown, titles, markdown=True, decimals=decimals)
        markdown = tables.report(heading, laid_out, notes, width=None)
        tables.save(flag_values.output, rows, run, text=text, markdown=markdown)
    groups = table.input_scores(networks, metrics)
    if flag_values.input_scores:
        input_scores.save(flag_values.input_scores, "svea", groups)
    if plot_dir:
        from svea import figures
        from svea import shown as shown_inputs

        examples = figures.example_rows(data, networks[0])
        model = next(iter(models.values()))
        maps = scoring.example_maps(explainers[0], data, examples, model, store)
        for path in figures.save_figures(plot_dir, data, networks[0], maps, rows, titles, flag_values.plot_format):
            print_line(f"figure: {path}", file=sys.stderr)
        shown_inputs.save(plot_dir, data, model, explainers[0], groups, networks[0].probabilities, store)


def works(flag_values: flags.FlagValues) -> Callable[[str], ShardedRun]:
    """Return a function from a network's name to what this command explains and measures of it, for workers."""
    from svea import mnist1d

    asked = svea_methods.settings(flag_values.methods, flag_values.rise_masks, flag_values.layer)
    metrics = metric_registry.select_metrics(flag_values.metrics, METRICS)
    own_metrics = {name: metric for name, metric in metrics.items() if name not in METRICS}
    paths = {shown_model(path): path for path in _model_paths(flag_values)}
    data = mnist1d.load()

    @functools.cache
    def work(name: str) -> ShardedRun:
        return _sharded_run(flag_values, name, _loaded(paths[name], asked), data, asked, own_metrics, None)

    return work


def _sharded_run(flag_values, name, model, data, chosen, metrics, store):
    from svea import scoring

    explainer = _explainer(flag_values, model, chosen)
    maps_directory = _maps_directory(flag_values, model, chosen) if flag_values.maps_dir else None
    return scoring.sharded_run(name, model, data, explainer, metrics, flag_values.batch_size, store, maps_directory)


def _explainer(flag_values, model, chosen):
    from svea import scoring

    return scoring.explainer(model, chosen, flag_values.seed, flag_values.batch_size, flag_values.random_networks)


def _loaded(path, chosen):
    """Return a network, with its live one where a method of another library needs that."""
    from svea import scoring

    model = scoring.load_network(path)
    model.live_source = scoring.attach_live_network  # for methods of one's own that ask for it
    if any(getattr(method, "library", None) for method, _ in chosen.values()):
        scoring.attach_live_network(model)
    return model


def _saved_maps(flag_values, methods, model):
    """Return maps of a directory in place of a network's own."""
    from attribution_benchmarks.core import saved_maps
    from svea import controls, regions

    folders = saved_maps.saved_methods(flag_values.from_maps, methods)
    names = [regions.file_of(row) for row in range(regions.SIGNALS)]
    missing = saved_maps.with_all_maps(names, folders).count(False)
    if missing:
        raise BadInput(
            f"{missing:,} of the {len(names):,} signals have no map of every method in {flag_values.from_maps}; "
            f"expected METHOD/{names[0]}.npy to METHOD/{names[-1]}.npy"
        )
    return saved_maps.SavedMaps(folders, controls.CONTROLS, flag_values.seed, model.scores)


def _maps_directory(flag_values, model, chosen):
    """Return where maps are saved."""
    from attribution_benchmarks.core.saved_maps import MapsDirectory

    settings = {name: repr(overrides) for name, (_, overrides) in chosen.items()}
    origin = {"benchmark": "svea", "model": model.fingerprint, "seed": flag_values.seed, "settings": settings}
    return MapsDirectory(flag_values.maps_dir, origin)


def _model_paths(flag_values) -> list[pathlib.Path]:
    """Return the directories of the networks to score."""
    if flag_values.model and flag_values.models:
        raise BadInput("--model and --models were both given; --model is for one network, --models for several")
    if flag_values.models and not all(flag_values.models):
        raise BadInput("--models has an empty name; write --models=first,second")
    given = [flag_values.model] if flag_values.model else flag_values.models
    if not given and not DEFAULT_MODEL.is_dir():
        raise BadInput("the default network is missing; train it with: python -m svea.baseline, or give --model=")
    paths = [pathlib.Path(path) for path in given] or [DEFAULT_MODEL]
    if len({path.resolve() for path in paths}) < len(paths):
        raise BadInput("--models names a network twice")
    return paths


def _checked_directory(flag: str, path: str) -> pathlib.Path | None:
    """Return a directory to write to, or None; refuse one that cannot be made."""
    check_directory(flag, path)
    return pathlib.Path(path) if path else None


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
