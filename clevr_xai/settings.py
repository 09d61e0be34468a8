"""Settings of CLEVR-XAI."""

from __future__ import annotations

import dataclasses

from attribution_benchmarks.core.metric import DROP, UNIFORM
from attribution_benchmarks.core.random_weights import NETWORKS
from attribution_benchmarks.core.settings import Count, MapSettings, Names, inherited, setting
from clevr_xai import masks, methods
from clevr_xai.metrics import CONFIDENCE, MASK_PIXELS, POOLINGS, SUBSETS

CORRECT_OF_COMPLEX = 300  # answers of a run by default
DRAWN = 100  # questions of a run by default
DEFAULT_TRUTHS = {"simple": ("single_object",), "complex": ("unique", "unique_firstnonempty", "union")}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(MapSettings):
    """The network, the questions, and the settings of methods, controls, tables and figures."""

    batch_size: int = inherited(MapSettings, "batch_size", 3)
    random_networks: int = inherited(MapSettings, "random_networks", NETWORKS)
    map_error: float = inherited(MapSettings, "map_error", 0.2, "; not with --tolerance")
    save_maps: str = setting("", "directory to save maps in, as METHOD/QUESTION_INDEX.npy", makes_files=True)
    model: str = setting("", "SavedModel, or .keras or .h5 file, to explain; a benchmark's default when empty")
    data_dir: str = setting("", "directory of the data; the embedded default when empty")
    num_questions: Count | None = setting(
        None,
        f"number of questions to score, or 'all'; by default {DRAWN} simple ones, or as many complex ones as "
        "--num_correct takes",
    )
    num_correct: int = setting(
        0,
        "sample questions until this number is answered correctly, instead of --num_questions; by default "
        f"{CORRECT_OF_COMPLEX} of complex questions, of which fewer are correct",
        low=0,
    )
    questions: str = setting("simple", "kind of the questions", choices=tuple(masks.GROUND_TRUTHS))
    ground_truth: Names = setting(
        (),
        "masks to score against: single_object, all_objects (simple); unique, unique_firstnonempty, union, all_objects "
        "(complex); by default single_object, or the first three of complex",
    )
    subset: Names = setting(
        tuple(SUBSETS),
        "of all, whose questions' values are kept, confident, large_mask; large_mask alone draws only such questions",
    )
    confidence: float = setting(CONFIDENCE, "softmax above which an answer is confident", low=0, high=1)
    min_mask_pixels: int = setting(MASK_PIXELS, "pixels above which a mask is large", low=0)
    steps: int = setting(methods.STEPS, "intervals of Integrated Gradients' path", low=1)
    tolerance: float = setting(
        methods.TOLERANCE,
        "if above 0, Integrated Gradients takes as many steps as this completeness error needs (a share of the "
        "difference of the scores), and --steps at most",
        low=0,
        high=0.5,
    )
    samples: int = setting(methods.SAMPLES, "noisy copies of SmoothGrad and VarGrad", low=1)
    controls: Names = setting(
        methods.BY_DEFAULT,
        f"of {', '.join(methods.CONTROLS)}; the last by default only with metrics of all benchmarks",
    )
    control_methods: Names = setting(
        (),
        "methods to explain for another class, for another question and on all random networks; by default all but "
        f"{', '.join(methods.COSTLY)}, whose controls would triple the cost, and on one random network "
        f"{', '.join(methods.MASKED)}",
    )
    pooling: Names = setting((), "poolings to compare in a table of means: names such as l2-norm or 'all'")
    degenerate_maps: str = setting(
        UNIFORM,
        "treatment of maps that are zero everywhere: score them as the uniform map, so that all methods are scored on "
        "the same questions, or drop and count them",
        choices=(UNIFORM, DROP),
    )

    @property
    def truths(self) -> list[str]:
        """Names of the ground truths, the first being that of metrics of all benchmarks."""
        return list(dict.fromkeys(self.ground_truth or DEFAULT_TRUTHS[self.questions]))

    @property
    def poolings(self) -> list[str]:
        """Names of the poolings in a table of means."""
        return list(POOLINGS) if self.pooling == ("all",) else list(self.pooling)

    @property
    def wanted_correct(self) -> int:
        """Number of correct answers until which questions are drawn; 0 for a number of questions."""
        if self.questions == "complex" and self.num_questions is None and not self.precomputed_maps:
            return self.num_correct or CORRECT_OF_COMPLEX
        return self.num_correct

    @property
    def bounds(self) -> tuple[float, int]:
        """Confidence and number of mask pixels above which the subsets begin."""
        return self.confidence, self.min_mask_pixels


@dataclasses.dataclass(frozen=True, kw_only=True)
class AttentionSettings(Settings):
    """Those of CLEVR-XAI, for its networks of cross-attention."""

    batch_size: int = inherited(Settings, "batch_size", 8)  # its tensors are smaller than a Relation Network's
    model: str = inherited(Settings, "model", "saved_models/clevr_xai/cross_attention")
