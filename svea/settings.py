"""Settings of SVEA."""

from __future__ import annotations

import dataclasses
import pathlib

from attribution.errors import BadInput, listed
from attribution_benchmarks.core.bundled_models import default_model, given_or_bundled
from attribution_benchmarks.core.settings import MapSettings, Names, inherited, setting
from svea.methods import CANDIDATES, COSTLY, RISE_MASKS
from svea.mnist1d import SEED

_DEFAULT_MODEL = default_model("svea/baseline")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(MapSettings):
    """The networks, of which there may be several, and RISE's masks."""

    batch_size: int = inherited(MapSettings, "batch_size", 1000)
    random_networks: int = inherited(
        MapSettings, "random_networks", also=f"; all methods but {listed([*COSTLY, *CANDIDATES])}"
    )
    model: str = setting("", "SavedModel, or .keras or .h5 file, to explain; a benchmark's default when empty")
    models: Names = setting(
        (), "directories of several SavedModels, separated by commas: mean and standard deviation over them"
    )
    data_seed: int = setting(SEED, "seed of the signals; another one draws fresh signals, such as for a contest")
    rise_masks: int = setting(RISE_MASKS, "masks of RISE", low=1)

    def paths(self) -> list[pathlib.Path]:
        """Return the directories of the networks to score; raise ``BadInput`` for an ambiguous choice."""
        if self.model and self.models:
            raise BadInput("--model and --models were both given; --model is for one network, --models for several")
        given = [self.model] if self.model else self.models
        if not given:
            if not _DEFAULT_MODEL.is_dir():
                raise BadInput(
                    "the default network is missing; train it with: python -m svea.baseline, or give --model="
                )
            return [_DEFAULT_MODEL]
        if "" in given:
            raise BadInput("--models has an empty name; write --models=first,second")
        paths = list(map(given_or_bundled, given))
        if len({path.resolve() for path in paths}) < len(paths):
            raise BadInput("--models names a network twice")
        return paths
