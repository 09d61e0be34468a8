"""Settings of BIM, and those of TCAV."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable

from attribution.errors import BadInput, listed
from attribution.savedmodel.paths import is_keras_file
from attribution_benchmarks.core.settings import Count, MapSettings, Names, RunSettings, inherited, setting
from bim.layout import MODEL_NAMES, SAVED_MODELS
from bim.members import members
from bim.methods import COSTLY, MASKED
from bim.scores import METRICS

_COMPAT = "upstream: models by the authors' tensor names"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(MapSettings):
    """The sets, the models in files or on a server, the controls and the comparison."""

    batch_size: int = inherited(MapSettings, "batch_size", 16)
    random_networks: int = inherited(
        MapSettings, "random_networks", also=f"; all methods but {listed(COSTLY)}, and {listed(MASKED)} on one"
    )
    data_dir: str = setting("", "directory of the data; the embedded default when empty")
    num_imgs: Count = setting(10, "number of images to score, or 'all'")
    deadline: float = setting(60.0, "seconds that one request to the server may take")
    retry_timeout: float = setting(120.0, "seconds to retry requests while the server is unavailable")
    models_dir: str = setting(SAVED_MODELS, "directory of the models obj, scene, scene_only, scene1, ...")
    models: Names = setting(
        (),
        "your SavedModels in place of members, as name=directory,...: obj=my/model,scene=my/other; the names are obj, "
        "scene, scene_only, scene1 to scene10, and other members come from --models_dir; with --server, names of its "
        "models, as in obj=my_model or obj=my_model@2",
    )
    server: str = setting(
        "",
        "TensorFlow Serving to query instead of files: grpc://host:8500 or http://host:8501; its models are called "
        "bim_obj, bim_scene, ... unless --models says otherwise",
    )
    controls: bool = setting(True, "score random map, center prior and edge detector too")
    compat: str = setting(
        "default", f"{_COMPAT}, and 0/0 where a map is flat, as in their code", choices=("default", "upstream")
    )

    def own_models(self, metrics: Iterable[str]) -> dict[str, str]:
        """Return the models that the user scores in place of members, ``obj=DIR`` as ``{"obj": "DIR"}``.

        Of a server they are names of its models instead of directories. Raises ``BadInput`` if an entry has another
        form or comes twice, or its name is no member of these metrics.
        """
        used = {name for metric in metrics for name, _ in members(metric)}
        found = {}
        for entry in self.models:
            name, _, directory = entry.partition("=")
            if name not in MODEL_NAMES or not directory:
                raise BadInput(f"--models has '{entry}'; expected name=directory with a name of {listed(MODEL_NAMES)}")
            if name in found:
                raise BadInput(f"--models names '{name}' twice; one model can take its place")
            if name not in used:
                takers = [metric for metric in METRICS if name in dict(members(metric))]
                raise BadInput(f"model '{name}' has no part in {listed(metrics)}, only in {listed(takers)}")
            if not (self.server or os.path.isdir(directory) or is_keras_file(directory)):
                raise BadInput(f"--models={entry}: no directory {directory}; expected a SavedModel or a Keras file")
            found[name] = directory
        return found


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformerSettings(Settings):
    """Those of BIM, for its vision transformers."""

    models_dir: str = inherited(Settings, "models_dir", os.path.join(SAVED_MODELS, "vit"))


@dataclasses.dataclass(frozen=True, kw_only=True)
class TcavSettings(RunSettings):
    """The model, its contrast, the layers and the counterparts."""

    model: str = setting("obj", "obj, scene, ...: a model of --models_dir; or the directory of any SavedModel")
    data_dir: str = setting("", "directory of the data; the embedded default when empty")
    target: str = setting(
        "", "class that --model gives images of dogs in bedrooms: dog or bedroom; by its name when empty"
    )
    compat: str = setting("default", _COMPAT, choices=("default", "upstream"))
    models_dir: str = setting(SAVED_MODELS, "folder of the models")
    contrast_with: str = setting("scene", "model to subtract, as --model; nothing when empty")
    contrast_target: str = setting("", "as --target, for --contrast_with")
    layers: Names = setting(
        (),
        "layers to score the concept in, final_dense being the logits; by default block_layer1 to block_layer4 and the "
        "logits, or what a model has for them",
    )
    num_random: int = setting(10, "random counterparts, each one experiment", low=2)
    level: float = setting(0.05, "significance level after Holm's correction", low=0.0, high=1.0)
