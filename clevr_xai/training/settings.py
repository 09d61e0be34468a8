"""Settings of a training of the Relation Network."""

from __future__ import annotations

import dataclasses

from attribution_benchmarks.core.manifest import flag_of
from attribution_benchmarks.core.settings import Names, Settings, setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingSettings(Settings):
    """The data, the stages and the machine; see scripts/train_relation_network.py."""

    data_dir: str = setting("data/clevr_xai_training", "directory of the training data")
    seed: int = setting(0, "seed of all random numbers; results are reproducible", low=0, high=2**32 - 1)
    validation_dir: str = setting("data/clevr_xai_validation", "data of another seed")
    test_dir: str = setting("", "data of a third seed for the card; the validation data when empty")
    num_images: int = setting(0, "number of images, from the first on; 0 for all", low=0)
    rounds: int = setting(4, "rounds of questions about the training scenes", low=1)
    wording: Names = setting(
        ("official",),
        "sentences of the questions, see scripts/generate_clevr_xai.py: official, plain, or both separated by a comma, "
        "with --start_from first the wording that the exported network reads",
    )
    checkpoint_dir: str = setting("data/relation_network", "for checkpoints and the log")
    output_dir: str = setting("data/trained/relation_network", "where to export to")
    final_questions: Names = setting(("simple", "complex"), "kinds of questions of the last stage")
    reading_steps: int = setting(19_000, "steps that train the question encoder; not with --start_from", low=0)
    rewording_steps: int = setting(
        0, "steps that teach the question encoder of --start_from the further wordings of --wording", low=0
    )
    seeing_steps: int = setting(24_000, "steps that train the convolutions; 0 with --start_from keeps them", low=0)
    small_steps: int = setting(10_000, "steps that train a g of three layers of 128", low=1)
    following_steps: int = setting(
        10_000, "steps that add the losses on the program's sets, compared pairs and operands", low=1
    )
    final_steps: int = setting(
        26_000,
        "steps that train the paper's g, most of them at a falling rate; 0 with --start_from keeps it",
        low=0,
    )
    start_from: str = setting("", "exported network to start from, with the stages rewording, seeing and final")
    images_per_step: int = setting(32, "images of a step", low=1)
    pairs: int = setting(128, "pairs of cells that a step sums over", low=104, high=2401)
    precision: str = setting(
        "float32",
        "of g in training; bfloat16 takes processors that compute with it (AVX512_BF16) three quarters of the time",
        choices=("float32", "bfloat16"),
    )
    checkpoint_steps: int = setting(1000, "steps between checkpoints; twice as many in small and following", low=1)
    workers: int = setting(
        1, "processes that make batches, on Linux; 1 is a thread, enough beside two cores that compute", low=1
    )
    threads: int = setting(2, "threads of one operation", low=1)

    def steps(self, stage: str) -> int:
        """Return the number of steps of a stage."""
        found: int = getattr(self, f"{stage}_steps")
        return found

    def flags(self, names: Names) -> list[str]:
        """Return some of the settings as flags."""
        return [flag_of(name, getattr(self, name)) for name in names]
