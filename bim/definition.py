"""BIM as a benchmark: its description, and what is chosen before anything is loaded."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from attribution import Method
from attribution.errors import BadInput
from attribution_benchmarks.core.bundled_models import default_model
from attribution_benchmarks.core.controls import GROUND_TRUTH, WRONG_CLASS
from attribution_benchmarks.core.definition import Benchmark, ReportTask, metrics_named
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.core.random_weights import RANDOM_WEIGHTS
from attribution_benchmarks.core.report_text import ReportText
from bim.methods import CONTROLS, COSTLY, MAPS, PRINTED, method_named
from bim.scores import METRICS
from bim.settings import Settings, TcavSettings

if TYPE_CHECKING:
    from attribution_benchmarks.core.evaluation import Run
    from bim.evaluation import BimEvaluation


NUM_PAIRS = 10  # bundled, one in the package and the others beside it


class _Bim(Benchmark):
    """What BIM chooses."""

    def select_metrics(self, names: Sequence[str]) -> dict[str, Metric]:
        """Return the metrics by name; those of BIM's paper may be written in capitals."""
        return metrics_named([name.lower() if name.lower() in METRICS else name for name in names], METRICS)

    def check(self, settings: Settings, metrics: Mapping[str, Metric], names: Sequence[str]) -> None:
        """Refuse settings that do not fit together, names of controls, and an empty table."""
        maps, server, upstream = settings.precomputed_maps, settings.server, settings.compat == "upstream"
        for conflict, why in (
            (maps and server, "--precomputed_maps computes no maps; omit --server"),
            (settings.random_networks and (maps or server),
             "--random_networks needs models in files; omit it, or --precomputed_maps and --server"),
            (settings.random_networks and upstream,
             "--random_networks has no tensors of the authors' names; omit it, or --compat=upstream"),
            (server and upstream,
             "--compat=upstream addresses files by tensor names, a server has none; omit one of the two"),
        ):  # fmt: skip
            if conflict:
                raise BadInput(why)
        settings.own_models(metrics)
        _check_names(settings, names)

    def method_named(self, name: str) -> Method:
        """Return the method of a name, with the authors' settings."""
        return method_named(name)

    def with_parameters(self, chosen: Mapping[str, Method], settings: Settings) -> dict[str, tuple[Method, Mapping]]:
        """Return the methods, of a server those that it can answer; the layer depends on the model."""
        if settings.server:
            from attribution_benchmarks import serving

            chosen = {name: serving.as_served(method) for name, method in chosen.items()}
        return {name: (method, {}) for name, method in chosen.items()}

    def default_scores_dir(self, settings: Settings) -> str:
        """Return the directory ``scores`` of the sets, which are generated if they are the embedded ones."""
        from bim.data import resolve_data_dir

        return "" if settings.precomputed_maps else os.path.join(resolve_data_dir(settings.data_dir), "scores")

    def with_model(self, settings: Settings, path: str) -> Settings:
        """Return settings with a user's model as the one of objects."""
        return dataclasses.replace(settings, models=(f"obj={path}",))


def _check_names(settings: Settings, methods: Iterable[str]) -> None:
    """Refuse names of controls, and an empty table."""
    controls = [control.name for control in CONTROLS]
    for name in methods:
        if name in controls:
            raise BadInput(f"'{name}' is a control, which is scored anyway; omit it from --methods")
    names = [*methods, *(controls if settings.controls else [])]
    if not (names or settings.precomputed_maps):
        raise BadInput("--methods is empty and there are no controls; name at least one method")


def _load(run: Run) -> BimEvaluation:
    from bim.evaluation import load

    return load(run)


def _report_tasks(quick: bool, seed: int) -> list[ReportTask]:
    """Return the tasks of a quick or of a full run."""
    images, contrast_images, counterparts = (6, 4, 4) if quick else (24, 10, 10)
    settings = Settings(num_imgs=images, seed=seed)
    costly = MAPS[COSTLY[0]].title
    tasks = [
        ReportTask(
            "bim", "bim", "BIM: MCS, IDR and IIR", settings,
            tuple(name for name in PRINTED if not (quick and name in COSTLY)),
            f"{images} images of each drawn set with the authors' parameters; those count that both networks of a pair "
            "classify correctly. The paper scores up to 10,000 photographs. Methods are also compared with their own "
            f"maps on networks with random weights, all but {costly}; Score-CAM and SISE "
            f"against one of them. IIR and {costly} are of one pair of networks.{_not_installed()}",
            metrics=("MCS", "IDR", "IIR"),
            cost=45 if quick else 235,
            further_cost=35,
            # The patches in the directory of the sets are those of one network; the method takes 625 gradients a map,
            # more than all others together.
            once=("IIR", *COSTLY),
            networks=tuple(dataclasses.replace(settings, models_dir=each) for each in _further_pairs()),
        ),
        ReportTask(
            "bim_rmcs", "bim", "BIM: relative MCS", Settings(num_imgs=contrast_images, seed=seed),
            tuple(name for name in PRINTED if name not in COSTLY)[: 4 if quick else None],
            f"{contrast_images} images under ten networks, without {costly}, whose 625 gradients an image would take "
            "longer than all else.",
            shared=False, metrics=("RMCS",), more_metrics=False, own_model=False,
            random_networks=False, cost=20,
        ),
        ReportTask(
            "bim_tcav", "bim", "BIM: TCAV", TcavSettings(num_random=counterparts, seed=seed),
            note=f"The concept “dog” against {counterparts} random counterparts.", place="bim.tcav:TCAV",
            scores=False, shared=False, more_metrics=False, own_model=False,
            random_networks=False, cost=25,
        ),
    ]  # fmt: skip
    return [task for task in tasks if _has_relative() or task.name != "bim_rmcs"]


def _has_relative() -> bool:
    """Return whether the networks of the relative MCS are there; they are not in the wheel."""
    return default_model("bim/scene1").is_dir()


def _further_pairs() -> list[str]:
    """Return the directories of the pairs beside the default one, those that are there."""
    names = (f"bim/seed{number}" for number in range(1, NUM_PAIRS))
    return [f"saved_models/{name}" for name in names if default_model(name).is_dir()]


def _not_installed() -> str:
    """Return what a report without attribution-benchmarks-models lacks, as a sentence; empty with it."""
    if _has_relative() and _further_pairs():
        return ""
    return " Nine more pairs and the relative MCS need the package attribution-benchmarks-models."


BENCHMARK = _Bim(
    name="bim",
    title="BIM",
    report=ReportText.load(pathlib.Path(__file__).with_name("report.toml")),
    metrics=tuple(METRICS[name] for name in ("mcs", "idr", "iir")),
    controls=(*CONTROLS, GROUND_TRUTH, WRONG_CLASS, RANDOM_WEIGHTS),
    methods=PRINTED,
    method_titles={name: method.title for name, method in MAPS.items()},
    method_families={name: method.family for name, method in MAPS.items()},
    settings=Settings,
    command="bim.metrics",
    evaluation=_load,
    report_tasks=_report_tasks,
)
