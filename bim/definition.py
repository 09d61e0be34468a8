"""BIM as a benchmark: its description, and the hooks of ``core.runner``."""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from absl import flags

from attribution import cli
from attribution.errors import BadInput, listed, print_line
from attribution_benchmarks.beam.precompute import check_precompute_flags
from attribution_benchmarks.core.controls import GROUND_TRUTH
from attribution_benchmarks.core.definition import Benchmark, ReportTask, Section, metrics_named
from attribution_benchmarks.core.evaluator import ShardedRun
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.core.random_weights import RANDOM_WEIGHTS
from attribution_benchmarks.core.report_text import ReportText
from attribution_benchmarks.core.runner import Run
from bim import layout
from bim.attributions import CAM_LAYER, CONTROLS, COSTLY, MAPS, MASKED, PRINTED, cam_layer, method_named
from bim.layout import define_compat
from bim.scores import METRICS


class _Bim(Benchmark):
    """The hooks of BIM; modules that need TensorFlow are imported inside."""

    def define_flags(self, flag_values: flags.FlagValues) -> None:
        """Define the sets, the models in files or on a server, the controls and the comparison."""
        cli.define_common_flags(
            flag_values, data_dir="", num_imgs=10, cache_dir="", trust_model=False, deadline=60.0, retry_timeout=120.0
        )
        flags.DEFINE_string(
            "models_dir", layout.SAVED_MODELS, "directory of the models obj, scene, scene_only, scene1, ...",
            flag_values=flag_values,
        )  # fmt: skip
        flags.DEFINE_list(
            "models", [],
            "your SavedModels in place of members, as name=directory,...: obj=my/model,scene=my/other; the names are "
            "obj, scene, scene_only, scene1 to scene10, and other members come from --models_dir; with --server, names "
            "of its models, as in obj=my_model or obj=my_model@2",
            flag_values=flag_values,
        )  # fmt: skip
        flags.DEFINE_string(
            "server", "",
            "TensorFlow Serving to query instead of files: grpc://host:8500 or http://host:8501; its models are called "
            "bim_obj, bim_scene, ... unless --models says otherwise",
            flag_values=flag_values,
        )  # fmt: skip
        flags.DEFINE_bool(
            "controls", True, "score random map, center prior and edge detector too", flag_values=flag_values
        )
        flags.DEFINE_string(
            "compare", "random", "method to compare the others with, image by image", flag_values=flag_values
        )
        define_compat(flag_values, "and 0/0 where a map is flat, as in their code")
        flag_values.set_default("batch_size", 16)
        flag_values["scores_dir"].help += "; 'scores' in the directory of the sets when empty"
        flag_values["random_networks"].help += f"; all methods but {listed(COSTLY)}, and {listed(MASKED)} on one"

    def select_metrics(self, names: Sequence[str]) -> dict[str, Metric]:
        """Return the metrics by name; those of BIM's paper may be written in capitals."""
        return metrics_named([name.lower() if name.lower() in METRICS else name for name in names], METRICS)

    def check(self, run: Run) -> None:
        """Refuse flags that do not fit together."""
        from bim.evaluate import map_folders, own_models

        given = run.flags
        if given.precomputed_maps and given.server:
            raise BadInput("--precomputed_maps computes no maps; omit --server")
        if given.random_networks and (given.precomputed_maps or given.server):
            raise BadInput("--random_networks needs models in files; omit it, or --precomputed_maps and --server")
        if given.random_networks and given.compat == "upstream":
            raise BadInput("--random_networks has no tensors of the authors' names; omit it, or --compat=upstream")
        if given.server and given.compat == "upstream":
            raise BadInput("--compat=upstream addresses files by tensor names, a server has none; omit one of the two")
        own_models(given.models, run.metrics, bool(given.server))
        check_precompute_flags(given)
        if given.precomputed_maps:
            _check_names(run, map_folders(run))

    def select_methods(self, run: Run) -> dict[str, tuple[Any, Mapping]]:
        """Return the methods with the authors' settings; the layer depends on the model."""
        methods = {name: method_named(name) for name in run.method_names}
        _check_names(run, methods)
        if run.flags.server:
            from attribution_benchmarks import serving

            methods = {name: serving.as_served(method) for name, method in methods.items()}
        return {name: (method, {}) for name, method in methods.items()}

    def default_scores_dir(self, run: Run) -> str:
        """Return the directory ``scores`` of the sets, which are generated if they are the embedded ones."""
        from bim.dataset import resolve_data_dir

        return "" if run.flags.precomputed_maps else os.path.join(resolve_data_dir(run.flags.data_dir), "scores")

    def load(self, run: Run) -> None:
        """Load the models and lists of the sets that the metrics need."""
        from bim.evaluate import BimRun

        run.data = BimRun(run)
        run.models = run.data.models
        if run.in_worker:
            return
        _report_models(run)
        if not run.flags.check_model:
            _ = run.data.maps_directory  # raises for a directory with other maps
            if "iir" in run.metrics and run.flags.data_dir:
                from bim.delta_patch import patches_for

                patches_for(run.data, made_here=False)  # raises for patches of another model

    def describe_models(self, run: Run) -> list[str]:
        """Return each model's number of correct predictions on images of its sets."""
        from bim.evaluate import PATCH_SET, members

        pairs = dict.fromkeys(pair for metric in run.metrics for pair in members(metric))
        return [_fit(run, *pair) for pair in pairs if pair[1] != PATCH_SET]

    def sharded_runs(self, run: Run) -> Iterable[Sequence[ShardedRun]]:
        """Return a run for each model and set."""
        if "iir" in run.metrics:
            _patches(run)
        return run.data.sharded_runs()

    def sharded_run(self, run: Run, name: str) -> ShardedRun:
        """Return the run of ``obj-obj`` and so on, without its images."""
        model_name, _, set_name = name.partition("-")
        return run.data.sharded_run(model_name, set_name)

    def drop(self, run: Run, failed: Mapping[str, Sequence]) -> None:
        """Drop images from all sets."""
        run.data.drop(failed)

    def sections(self, run: Run) -> Iterator[Section]:
        """Compare the models and sets of each metric; ``run.results`` are the ``Comparison`` objects so far."""
        from bim import _table

        run.results = []
        for metric in run.metrics:
            patches = _patches(run) if metric == "iir" else None
            compared = run.data.compare(metric)
            run.results += compared
            run.input_scores = _table.image_scores(run.results)
            rows = _table.score_rows(compared, run.flags.compare, run.metrics)
            parts = [_table.table(run.metrics[metric], rows, self.titles(run))]
            if metric == "rmcs" and _any_bundled(run):
                parts.append(_table.CHOSEN_BY_SCORE + "\n")
            if patches:
                parts.append(patches.summary() + "\n")
            yield Section(rows + _table.curve_rows(compared, run.metrics), "\n".join(parts) + "\n")

    def titles(self, run: Run) -> dict[str, str]:
        """Return the titles of methods and controls by name."""
        methods = {name: method.title for name, (method, _) in run.methods.items()}
        controls = {control.name: control.title for control in (*CONTROLS, GROUND_TRUTH)}
        return {name: methods.get(name, name) for name in run.data.method_names} | controls

    def data_fingerprints(self, run: Run) -> dict[str, str]:
        """Return the fingerprints of the sets by name."""
        return {name: images.fingerprint() for name, images in run.data.sets.items()}

    def write_figures(self, run: Run, rows: Sequence[Mapping]) -> None:
        """Write a figure of scores and one of examples for each metric, and images for a report."""
        from bim import _pictures

        places = _pictures.example_places(run.data, run.results, _pictures.NUM_EXAMPLES)
        _pictures.write_pictures(
            run.flags.plot_dir, run.data, run.metrics, rows, self.titles(run), places, run.flags.plot_format
        )
        _pictures.save_report_examples(run.flags.plot_dir, run.data, run.results)


def _check_names(run: Run, methods: Iterable[str]) -> None:
    """Refuse names of controls, an empty table, and a comparison with a method that is not scored."""
    controls = [control.name for control in CONTROLS]
    for name in methods:
        if name in controls:
            raise BadInput(f"'{name}' is a control, which is scored anyway; omit it from --methods")
    names = [*methods, *(controls if run.flags.controls else [])]
    if not names:
        raise BadInput("--methods is empty and there are no controls; name at least one method")
    if run.flags["compare"].present and run.flags.compare and run.flags.compare not in names:
        raise BadInput(f"--compare={run.flags.compare} is not scored; choose one of {listed(names)}")


def _report_models(run: Run) -> None:
    """Print which models are the user's, and which layer replaces the authors' where a model has none of its name."""
    data = run.data
    if data.own_models:
        own = ", ".join(f"{name} ({path})" for name, path in data.own_models.items())
        others = ", ".join(name for name in run.models if name not in data.own_models)
        print_line(f"your own: {own}" + (f"; of --models_dir: {others}" if others else ""), file=sys.stderr)
    if data.client is not None or not any("layer" in method.defaults for method, _ in run.methods.values()):
        return
    for name, model in run.models.items():
        if cam_layer(model, run.flags.layer) is None:
            print_line(
                f"{name} has no layer '{CAM_LAYER}'; its class activation maps are of {model.layer(None)} (--layer)",
                file=sys.stderr,
            )


def _fit(run: Run, model_name: str, set_name: str) -> str:
    member, rows = run.data.member(model_name, set_name), run.data.drawn(set_name)
    inputs = member.batch(rows).inputs
    correct = int((member.model.predict(inputs, run.flags.batch_size) == member.images.labels[rows]).sum())
    return (
        f"{model_name} fits BIM: images (batch, {inputs.shape[1]}, {inputs.shape[2]}, 3) to ten classes, "
        f"{correct} of {len(rows)} images of {set_name} right"
    )


def _patches(run: Run) -> Any:
    """Return the record of the delta patches, which are computed if the sets are the embedded ones."""
    from bim.delta_patch import patches_for

    return patches_for(run.data, made_here=not run.flags.data_dir)


def _any_bundled(run: Run) -> bool:
    """Return whether one of the contrast models is one of the repository's."""
    from bim.served import local_twin

    if run.data.client is not None:
        return any(local_twin(layout.SAVED_MODELS, name, run.models[name]) for name in layout.CONTRAST_SETS)
    bundled = os.path.realpath(layout.SAVED_MODELS)
    own, directory = run.data.own_models, run.flags.models_dir
    paths = (os.path.realpath(own.get(name, os.path.join(directory, name))) for name in layout.CONTRAST_SETS)
    return any(os.path.commonpath([path, bundled]) == bundled for path in paths)


_FURTHER = tuple((f"--models_dir=saved_models/bim/seed{seed}",) for seed in range(1, 5))  # pairs of networks


def _report_tasks(quick: bool, seed: int, share: float = 1.0) -> list[ReportTask]:
    """Return the commands of a quick run, or of a full run on a share of its images."""
    images, contrast_images, counterparts = (
        (6, 4, 4) if quick else (max(6, round(24 * share)), max(4, round(10 * share)), max(4, round(10 * share)))
    )
    seeded = (f"--seed={seed}",) if seed else ()
    return [
        ReportTask(
            "bim", "bim", "BIM: MCS, IDR and IIR", ("-m", "bim.metrics", f"--num_imgs={images}", *seeded),
            tuple(name for name in PRINTED if not (quick and name in COSTLY)),
            f"{images} images of each drawn set with the authors' parameters; those count that both networks of a pair "
            "classify correctly. The paper scores up to 10,000 photographs. Methods are also compared with their own "
            f"maps on networks with random weights, all but {MAPS[COSTLY[0]].title}; Score-CAM and SISE "
            f"against one of them. IIR and {MAPS[COSTLY[0]].title} are of one pair of networks.",
            metrics=("MCS", "IDR", "IIR"),
            model_flag="--models=obj=",
            random_networks=True,
            cost=45 if quick else 30 + 205 * share,
            further_cost=35,
            # The patches in the directory of the sets are those of one network; the method takes 625 gradients a map,
            # more than all others together.
            once=("IIR", *COSTLY),
            networks=_FURTHER,
        ),
        ReportTask(
            "bim_rmcs", "bim", "BIM: relative MCS",
            ("-m", "bim.metrics", "--metrics=RMCS", f"--num_imgs={contrast_images}", *seeded),
            tuple(name for name in PRINTED if name not in COSTLY)[: 4 if quick else None],
            f"{contrast_images} images under ten networks, without {MAPS[COSTLY[0]].title}, whose 625 gradients an "
            "image would take longer than all else.",
            input_scores=False,
            shared=False,
            cost=8 + 12 * share,
        ),
        ReportTask(
            "bim_tcav", "bim", "BIM: TCAV", ("-m", "bim.run_tcav", f"--num_random={counterparts}", *seeded),
            note=f"The concept “dog” against {counterparts} random counterparts.",
            input_scores=False, scores=False, pictures=False, shared=False, cost=10 + 15 * share,
        ),
    ]  # fmt: skip


BENCHMARK = _Bim(
    name="bim",
    title="BIM",
    report=ReportText.load(pathlib.Path(__file__).with_name("report.toml")),
    metrics=tuple(METRICS[name] for name in ("mcs", "idr", "iir")),
    controls=(*CONTROLS, GROUND_TRUTH, RANDOM_WEIGHTS),
    methods=PRINTED,
    method_titles={name: method.title for name, method in MAPS.items()},
    method_families={name: method.family for name, method in MAPS.items()},
    report_tasks=_report_tasks,
)
