"""SVEA as a benchmark: its description, and the hooks of ``core.runner``."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from absl import flags

from attribution import cli
from attribution.errors import BadInput, listed, print_line
from attribution_benchmarks.cli.bundled_models import default_model, given_or_bundled, shown_model
from attribution_benchmarks.core.definition import Benchmark, ReportTask
from attribution_benchmarks.core.evaluator import ShardedRun
from attribution_benchmarks.core.input_scores import InputScores
from attribution_benchmarks.core.random_weights import RANDOM_WEIGHTS, has_variables, networks
from attribution_benchmarks.core.report_text import ReportText
from attribution_benchmarks.core.runner import Run
from svea import methods
from svea.methods import CANDIDATES, CONTROLS, COSTLY, METHODS, RAW_SIGNAL, RISE_MASKS
from svea.metrics import METRICS

_DEFAULT_MODEL = default_model("svea/baseline")


class _Svea(Benchmark):
    """The hooks of SVEA; modules that need TensorFlow or scikit-learn are imported inside."""

    def define_flags(self, flag_values: flags.FlagValues) -> None:
        """Define the networks, of which there may be several, and RISE's masks."""
        cli.define_common_flags(flag_values, model="")
        flags.DEFINE_list(
            "models", [],
            "directories of several SavedModels, separated by commas: mean and standard deviation over them",
            flag_values=flag_values,
        )  # fmt: skip
        flags.DEFINE_integer("rise_masks", RISE_MASKS, "masks of RISE", lower_bound=1, flag_values=flag_values)
        flag_values.set_default("batch_size", 1000)
        flag_values["random_networks"].help += f"; all methods but {listed([*COSTLY, *CANDIDATES])}"

    def check(self, run: Run) -> None:
        """Refuse an ambiguous choice of networks."""
        several = len(_model_paths(run.flags)) > 1
        if several and (run.flags.save_maps or run.flags.precomputed_maps):
            raise BadInput("maps are of one network; give one with --model=")

    def select_methods(self, run: Run) -> dict[str, tuple[Any, Mapping]]:
        """Return the methods with SVEA's settings."""
        return methods.settings(run.method_names, run.flags.rise_masks, run.flags.layer)

    def load(self, run: Run) -> None:
        """Load the networks and MNIST-1D."""
        from svea import mnist1d, scoring

        run.models = {shown_model(path): scoring.load_network(path) for path in _model_paths(run.flags)}
        run.data = mnist1d.load()
        for model in run.models.values():
            if any(getattr(method, "library", None) for method, _ in run.methods.values()):
                scoring.attach_live_network(model)
            if run.flags.layer:
                model.layer(run.flags.layer)  # raises for an unknown layer

    def describe_models(self, run: Run) -> list[str]:
        """Return each network's accuracy and the layer of class activation maps."""
        return [_fit(name, model, run) for name, model in run.models.items()]

    def sharded_runs(self, run: Run) -> list[list[ShardedRun]]:
        """Return one run through all 5,000 signals for each network."""
        return [[self.sharded_run(run, name) for name in run.models]]

    def sharded_run(self, run: Run, name: str) -> ShardedRun:
        """Return the run of one network."""
        from svea import scoring

        model = run.models[name]
        count = run.flags.random_networks if has_variables(model.path) else 0  # no weights to draw without variables
        controls = (*networks([RANDOM_WEIGHTS] if count else [], count), *CONTROLS)
        explainer = run.explainer(model, controls, [each for each in run.methods if each not in (*COSTLY, *CANDIDATES)])
        if run.flags.precomputed_maps:
            _check_saved_maps(run.flags.precomputed_maps, explainer.folders)
        measures = [scoring.of_test_signals(metric.measure) for metric in run.shared_metrics.values()]
        settings = {each: repr(overrides) for each, (_, overrides) in run.methods.items()}
        evaluator = scoring.evaluator(
            explainer, model, [scoring.REGION, *measures], run.store,
            maps_directory=run.maps_directory(model=model.fingerprint, settings=settings),
        )  # fmt: skip
        return ShardedRun(
            name, evaluator, range(scoring.SIGNALS), run.flags.batch_size,
            lambda rows, size: scoring.batches(run.data, size, rows),
        )  # fmt: skip

    def drop(self, run: Run, failed: Mapping[str, Sequence]) -> None:
        """Refuse to drop signals: the machines of the ROE test are trained on all of them."""
        raise BadInput("SVEA needs the regions of all signals; what is computed is kept, so run the command again")

    def evaluate(self, run: Run) -> list:
        """Return the ``NetworkScores`` of each network."""
        from svea import scoring

        found = []
        for number, (name, model) in enumerate(run.models.items(), start=1):
            if len(run.models) > 1:
                print_line(f"network {number} of {len(run.models)}: {name}", file=sys.stderr)
            results = run.evaluate(self.sharded_run(run, name), "signal", "signals explained")
            found.append(
                scoring.score_network(model, run.data, results, run.shared_metrics, run.flags.batch_size, run.store)
            )
        return found

    def input_scores(self, run: Run) -> list[InputScores]:
        """Return each test signal's value by each metric, averaged over the networks."""
        from svea import table

        return table.input_scores(run.results, run.metrics)

    def rows(self, run: Run) -> list[dict]:
        """Return the rows of the table, with the paper's figures."""
        from svea import table

        return table.long_rows(run.results, run.metrics)

    def heading(self, run: Run) -> list[str]:
        """Return a line for each network."""
        from svea import baseline, mnist1d

        return [
            f"{name}: accuracy {network.accuracy(run.data):.1f} % on {mnist1d.TEST_SIGNALS:,} test signals "
            f"(paper's network: {baseline.PAPER_ACCURACY} %)"
            for name, network in zip(run.models, run.results, strict=True)
        ]

    def table(self, run: Run, rows: Sequence[Mapping], markdown: bool = False) -> str:
        """Lay out all rows but those of methods under random networks, which ``notes`` reports."""
        return super().table(run, [row for row in rows if "of" not in row], markdown)

    def titles(self, run: Run) -> dict[str, str]:
        """Return the titles of methods and controls by name."""
        return self.row_titles(run.results[0].sources)

    def notes(self, run: Run, rows: Sequence[Mapping]) -> list[str]:
        """Compare the scores with the paper's."""
        from svea import table

        return table.findings(run.results, rows, self.titles(run), run.flags.seed, list(run.models))

    def data_fingerprints(self, run: Run) -> dict[str, str]:
        """Return the fingerprint of MNIST-1D."""
        from svea import mnist1d

        return {"mnist1d": mnist1d.FINGERPRINT}

    def write_figures(self, run: Run, rows: Sequence[Mapping]) -> None:
        """Write the figures, and test signals for a report."""
        from svea import _figures

        _figures.write(run, rows, self.titles(run))


def _model_paths(flag_values: flags.FlagValues) -> list[pathlib.Path]:
    """Return the directories of the networks to score."""
    if flag_values.model and flag_values.models:
        raise BadInput("--model and --models were both given; --model is for one network, --models for several")
    given = [flag_values.model] if flag_values.model else flag_values.models
    if not given:
        if not _DEFAULT_MODEL.is_dir():
            raise BadInput("the default network is missing; train it with: python -m svea.baseline, or give --model=")
        return [_DEFAULT_MODEL]
    if "" in given:
        raise BadInput("--models has an empty name; write --models=first,second")
    paths = list(map(given_or_bundled, given))
    if len({path.resolve() for path in paths}) < len(paths):
        raise BadInput("--models names a network twice")
    return paths


def _fit(name: str, model: Any, run: Run) -> str:
    from svea.mnist1d import CLASSES, LENGTH

    test = run.data.test
    accuracy = 100 * (model.predict(test.signals[..., None], 1000) == test.labels).mean()
    try:
        layer = f"class activation maps of the layer {model.layer(run.flags.layer or None)}"
    except BadInput as error:
        layer = f"no class activation maps ({error})"
    return (
        f"{name} fits SVEA: signals (batch, {LENGTH}, 1) to {CLASSES} classes, {accuracy:.1f} % of the test signals "
        f"right; {layer}"
    )


def _check_saved_maps(directory: str, folders: Mapping[str, pathlib.Path]) -> None:
    from attribution_benchmarks.core.explainer import with_all_maps
    from svea import scoring

    names = [scoring.file_of(row) for row in range(scoring.SIGNALS)]
    missing = with_all_maps(names, folders).count(False)
    if missing:
        raise BadInput(
            f"{missing:,} of the {len(names):,} signals have no map of every method in {directory}; "
            f"expected METHOD/{names[0]}.npy to METHOD/{names[-1]}.npy"
        )


def _report_tasks(quick: bool, seed: int, share: float = 1.0) -> list[ReportTask]:
    """Return the command of a quick or a full run; the test needs all signals, whatever the ``share``."""
    masks = 200 if quick else 1000
    return [
        ReportTask(
            "svea", "svea", "SVEA, Table 1",
            ("-m", "svea.benchmark", f"--rise_masks={masks}", *((f"--seed={seed}",) if seed else ())),
            METHODS,
            f"All 5,000 signals, 1,000 of them scored; RISE with {masks:,} masks. The paper's nine methods, and "
            "methods of the other benchmarks, which the paper has no figure for. Every method but RISE is compared "
            "with its own regions on networks with random weights.",
            metrics=tuple(METRICS),
            model_flag="--model=",
            random_networks=True,
            cost=30 if quick else 60,
            further_cost=0 if quick else 45,
            networks=tuple((f"--model=saved_models/svea/baseline_seed{number}",) for number in range(1, 5)),
        )
    ]  # fmt: skip


BENCHMARK = _Svea(
    name="svea",
    title="SVEA",
    report=ReportText.load(pathlib.Path(__file__).with_name("report.toml")),
    metrics=tuple(METRICS.values()),
    controls=(RAW_SIGNAL, *CONTROLS, RANDOM_WEIGHTS),
    methods=(*METHODS, *CANDIDATES),
    method_titles={"score_cam_constant_masks": "Score-CAM, constant masks (candidate)"},
    report_tasks=_report_tasks,
)
