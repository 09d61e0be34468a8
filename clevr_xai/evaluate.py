"""Score attribution methods with CLEVR-XAI: how much of a map lies on the objects that a question is about.

    python -m clevr_xai.evaluate --questions=simple --metrics=mass,rank
    python -m clevr_xai.evaluate --questions=complex --ground_truth=unique,union --output=scores.json
    python -m clevr_xai.evaluate --methods=gradient,my_module:my_method --data_dir=CLEVR-XAI_v1.0 --num_questions=all
    python -m clevr_xai.evaluate --from_maps=my/heatmaps

Only questions that the network answers rightly count; the logit of the answer is explained. Without --data_dir the
200 embedded images are asked about: 100 simple questions, or complex ones until 300 are answered rightly. A question
costs a gradient for each of the 300 steps of Integrated Gradients, from three baselines, and of the 300 samples that
SmoothGrad and VarGrad share; --steps, --tolerance and --samples make it less.

In the wording of the official release the default network answers 43.3 % of simple and 61.0 % of complex questions
correctly: for --data_dir of the release name another network with --model.

Scores are kept in --scores_dir: a run that was stopped goes on, and one of more questions computes only those that are
new.

Relevance mass accuracy: the share of a map's total inside the mask. Relevance rank accuracy: the share inside of the
mask's number of highest pixels. All ten poolings of a map's channels are scored; the tables show l2-norm,sq for mass
and max-norm for rank, as reproductions of the paper have it, and --output holds all.

Cost: with --tolerance=0.02 9 to 12 CPU seconds a question of 300 steps and samples, some 75 to 100 CPU minutes and
1.5 GB for 500 questions under all controls; without, some 15 seconds, reckoned from its paths' cost on 8 questions.
"""

from __future__ import annotations

import functools
import logging
import pathlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from absl import flags

from attribution import cli
from attribution.errors import BadInput, listed, print_line, print_text
from attribution.file_io.paths import cache_directory, check_directory
from attribution_benchmarks.beam.flags import check_precompute_flags, define_precompute_flags
from attribution_benchmarks.beam.precompute import precompute_from_flags
from attribution_benchmarks.cli.bundled_models import default_model, shown_model
from attribution_benchmarks.cli.figures import check_plot_format, define_plot_format
from attribution_benchmarks.core import input_scores, manifest, tables
from attribution_benchmarks.core.batch import MapSource
from attribution_benchmarks.core.controls import GROUND_TRUTH, Control
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.core.random_weights import MOST, NETWORKS, RANDOM_WEIGHTS
from attribution_benchmarks.core.random_weights import network as random_network
from attribution_benchmarks.core.store import ScoreStore
from attribution_benchmarks.metrics import registry as metric_registry
from attribution_benchmarks.metrics.per_sample import DROP, UNIFORM
from clevr_xai import controls, masks, methods, subsets
from clevr_xai.accuracies import ACCURACIES
from clevr_xai.pooling import POOLINGS, pool
from clevr_xai.scoring import HEADING

if TYPE_CHECKING:
    from attribution_benchmarks.core.sharded_run import ShardedRun

MODELS = default_model("clevr_xai")
RIGHT_OF_COMPLEX = 300  # answers of a run by default
DEFAULT_TRUTHS = {"simple": ["single_object"], "complex": ["unique", "unique_firstnonempty", "union"]}
_DRAWN = "Intervals draw images again, since questions on one image belong together."
_PLACES = (
    "cache_dir", "output", "input_scores", "plot_dir", "plot_format", "num_pictures", "scores_dir", "maps_dir",
    "maps_pooling",
)  # fmt: skip

FLAGS = flags.FlagValues()
cli.define_common_flags(
    FLAGS,
    methods=list(methods.TITLES),
    model="",
    data_dir="",
    num_questions=100,
    batch_size=8,
    seed=0,
    output="",
    cache_dir="",
    layer="",
    check_model=False,
)
flags.DEFINE_integer(
    "num_right", 0,
    "draw questions until so many are answered rightly, in place of --num_questions; by default "
    f"{RIGHT_OF_COMPLEX} of complex questions, of which fewer are right",
    lower_bound=0, flag_values=FLAGS,
)  # fmt: skip
flags.DEFINE_enum("questions", "simple", list(masks.GROUND_TRUTHS), "which questions to ask", flag_values=FLAGS)
flags.DEFINE_list(
    "ground_truth",
    [],
    "masks to score against: single_object, all_objects (simple); unique, unique_firstnonempty, union, all_objects "
    "(complex); by default single_object, or the first three of complex",
    flag_values=FLAGS,
)
flags.DEFINE_list(
    "metrics",
    list(ACCURACIES),
    "of mass, rank and the metrics of all benchmarks, or file.py:NAME of your own; these are computed against the "
    "first ground truth",
    flag_values=FLAGS,
)
flags.DEFINE_list(
    "pooling", [], "poolings to compare in a table of means: names such as l2-norm or 'all'", flag_values=FLAGS
)
flags.DEFINE_list("subset", list(subsets.SUBSETS), "of all, confident, large_mask", flag_values=FLAGS)
flags.DEFINE_float(
    "confidence", subsets.CONFIDENCE, "softmax above which an answer is confident",
    lower_bound=0, upper_bound=1, flag_values=FLAGS,
)  # fmt: skip
flags.DEFINE_integer(
    "mask_pixels", subsets.MASK_PIXELS, "pixels above which a mask is large", lower_bound=0, flag_values=FLAGS
)
flags.DEFINE_integer(
    "steps", methods.STEPS, "intervals of Integrated Gradients' path", lower_bound=1, flag_values=FLAGS
)
flags.DEFINE_float(
    "tolerance", methods.TOLERANCE,
    "above 0, Integrated Gradients takes the steps it needs to miss the difference of the scores by at most this "
    "share, and no more than --steps or a few more",
    lower_bound=0, upper_bound=0.5, flag_values=FLAGS,
)  # fmt: skip
flags.DEFINE_integer(
    "samples", methods.SAMPLES, "noisy copies of SmoothGrad and VarGrad", lower_bound=1, flag_values=FLAGS
)
flags.DEFINE_float("noise", methods.NOISE, "their noise, as a share of max - min", lower_bound=0, flag_values=FLAGS)
flags.DEFINE_enum(
    "batch_norm", "pass", list(methods.BATCH_NORMS),
    "what LRP and Excitation Backprop do with normalisation: pass relevance on, or fold it into the next layer",
    flag_values=FLAGS,
)  # fmt: skip
flags.DEFINE_list(
    "controls", list(controls.BY_DEFAULT),
    f"of {', '.join(controls.CONTROLS)}; the last by itself only with metrics of all benchmarks", flag_values=FLAGS,
)  # fmt: skip
flags.DEFINE_list(
    "control_methods",
    [],
    "methods to try under another class, another question and all random networks; by default all but "
    f"{', '.join(methods.COSTLY)}, whose controls would cost three times as much again, and of "
    f"{', '.join(methods.MASKED)} one random network",
    flag_values=FLAGS,
)
flags.DEFINE_integer(
    "random_networks", NETWORKS, "networks of random weights, in turn shuffled and drawn anew", 1, MOST,
    flag_values=FLAGS,
)  # fmt: skip


class _DegenerateMaps(flags.EnumParser):
    """Parse ``--degenerate_maps``; accepts the former value "left_out" for one release."""

    def parse(self, argument: str) -> str:
        return super().parse(DROP if argument == "left_out" else argument)


flags.DEFINE(
    _DegenerateMaps([UNIFORM, DROP]),
    "degenerate_maps", UNIFORM,
    "treatment of maps that are zero everywhere: score them as the uniform map, so that all methods are scored on the "
    "same questions, or drop and count them",
    flag_values=FLAGS, serializer=flags.ArgumentSerializer(),
)  # fmt: skip
flags.DEFINE_alias("zero_maps", "degenerate_maps", flag_values=FLAGS)
flags.DEFINE_string("maps_dir", "", "folder to save maps in, as METHOD/QUESTION_INDEX.npy", flag_values=FLAGS)
flags.DEFINE_string(
    "maps_pooling", "", "save maps of this pooling, (H, W), instead of whole ones, (H, W, C)", flag_values=FLAGS
)
flags.DEFINE_string(
    "from_maps", "", "folder of maps to score, as --maps_dir writes them; no network is asked", flag_values=FLAGS
)
flags.DEFINE_string("scores_dir", "", "folder of stored scores; below the user's cache when empty", flag_values=FLAGS)
flags.DEFINE_string("input_scores", "", "file to write every question's scores to; .json", flag_values=FLAGS)
flags.DEFINE_string("plot_dir", "", "folder for pictures: maps of some questions, and box plots", flag_values=FLAGS)
define_plot_format(FLAGS)
flags.DEFINE_integer("num_pictures", 4, "questions to draw", lower_bound=1, flag_values=FLAGS)
define_precompute_flags(FLAGS)


def main(flag_values: flags.FlagValues) -> None:
    """Check everything the user gave, score, print, save."""
    truths, metrics = _check(flag_values)
    check_precompute_flags(flag_values)
    own = [name for name in metrics if name in ACCURACIES]
    shared = {name: metric for name, metric in metrics.items() if name not in ACCURACIES}
    if flag_values.check_model:
        print_line(_fit(flag_values))
        return
    from clevr_xai import commentary, covariates, mask_shares, table

    score = _from_maps if flag_values.from_maps else _explained
    measured, questions, explainer, sources = score(flag_values, truths[0], shared)
    dataset = questions.dataset
    if not measured.right.any():
        raise BadInput(f"none of the {len(measured.rows)} questions is answered rightly; there is nothing to score")
    bounds = flag_values.confidence, flag_values.mask_pixels
    rows = table.long_rows(measured, truths, own, flag_values.subset, *bounds, seed=flag_values.seed)
    rows += table.shared_rows(measured, truths[0], flag_values.seed)
    if flag_values.from_maps and "confident" in flag_values.subset:
        print_line("no network was asked, so there are no confident answers to set apart", file=sys.stderr)
    heading = _heading(measured, dataset, sources, flag_values.confidence)
    poolings = list(POOLINGS) if flag_values.pooling == ["all"] else flag_values.pooling
    notes = commentary.findings(measured, rows)
    if own:
        pooled = ", ".join(f"{HEADING[metric]} for {metric}" for metric in own)
        notes.append(f"The poster does not name its pooling; ours are {pooled}. {_DRAWN}")
    else:
        notes.append(_DRAWN)
    shares = mask_shares.by_family(measured, dataset, truths)
    going = covariates.correlations(measured, dataset, truths[0], own, flag_values.seed)
    notes += mask_shares.explained(shares)
    text, markdown = (
        tables.report(
            heading,
            table.text(rows, poolings, bounds, markdown=marked, shared=shared)
            + mask_shares.text(shares, marked)
            + covariates.text(going, marked),
            notes,
            width,
        )
        for marked, width in ((False, table.WIDTH), (True, None))
    )
    print_text(text, flush=True)
    if flag_values.output:
        described = manifest.describe_run(
            "clevr_xai",
            models=sources,
            data={dataset.kind: measured.fingerprint},
            seed=flag_values.seed,
            command=manifest.command_of("python -m clevr_xai.evaluate", flag_values, without=_PLACES),
        )
        tables.save(flag_values.output, rows, described, text=text, markdown=markdown)
    groups = table.input_scores(measured, truths, own)
    if flag_values.input_scores:
        input_scores.save(flag_values.input_scores, "clevr_xai", groups)
    if flag_values.plot_dir:
        from clevr_xai import pictures, shown

        store = _store(flag_values)

        def maps(rows):
            found = shown.maps_of(questions, rows, explainer, store)
            return {name: one / 255 for name, one in found.items()}

        picked = shown.chosen(groups, measured, truths[0])
        for path in pictures.write_pictures(
            flag_values.plot_dir, measured, dataset, maps, truths, own, flag_values.num_pictures,
            flag_values.plot_format, picked if len(picked) >= flag_values.num_pictures else None,
        ):  # fmt: skip
            print_line(f"picture: {path}", file=sys.stderr)
        shown.save(flag_values.plot_dir, questions, measured, explainer, groups, truths[0], store)


def _check(flag_values) -> tuple[list[str], dict[str, Metric]]:
    """Refuse, before any work, what cannot be; return the ground truths to score against, and the metrics."""
    tables.check_output(flag_values.output)
    if flag_values.input_scores:
        tables.check_output(flag_values.input_scores, suffixes=(".json",), flag="input_scores")
    check_plot_format(flag_values.plot_format)
    for flag in ("plot_dir", "maps_dir", "scores_dir"):
        check_directory(flag, flag_values[flag].value)
    truths = flag_values.ground_truth or DEFAULT_TRUTHS[flag_values.questions]
    poolings = [] if flag_values.pooling == ["all"] else [*flag_values.pooling]
    poolings += [flag_values.maps_pooling] if flag_values.maps_pooling else []
    for flag, given, known in (
        ("ground_truth", truths, masks.GROUND_TRUTHS[flag_values.questions]),
        ("subset", flag_values.subset, subsets.SUBSETS),
        ("controls", flag_values.controls, controls.CONTROLS),
        ("pooling", poolings, POOLINGS),
    ):
        for name in given:
            if name not in known:
                raise BadInput(f"--{flag} has no {name!r}; choose of {listed(known)}")
        if not given and flag == "subset":
            raise BadInput(f"--{flag} is empty; choose of {listed(known)}")
    for name in flag_values.methods:
        if name in controls.MAPS:
            raise BadInput(f"'{name}' is a control; ask for it with --controls={name}")
    if flag_values.num_right and (flag_values["num_questions"].present or flag_values.from_maps):
        raise BadInput("--num_right draws questions until so many are right; leave out --num_questions and --from_maps")
    if flag_values.from_maps and (flag_values.model or flag_values.maps_dir):
        raise BadInput("--from_maps asks no network; leave out --model and --maps_dir")
    if flag_values.maps_pooling and not flag_values.maps_dir:
        raise BadInput("--maps_pooling says how to save maps; name the folder with --maps_dir")
    return _truths_and_metrics(flag_values)


def _truths_and_metrics(flag_values) -> tuple[list[str], dict[str, Metric]]:
    truths = flag_values.ground_truth or DEFAULT_TRUTHS[flag_values.questions]
    return list(dict.fromkeys(truths)), metric_registry.select_metrics(flag_values.metrics, ACCURACIES)


def _explained(flag_values, ground_truth, shared):
    """Ask a network, explain its answers and score the maps."""
    chosen = _settings(flag_values)
    precompute = precompute_from_flags(flag_values, "clevr_xai.evaluate", str(_scores_dir(flag_values)))
    path, network, dataset = _network_and_data(flag_values)

    from clevr_xai.blocks import Questions, draw_rows, rows_until_right
    from clevr_xai.measured import measure, sharded_run

    wanted = flag_values.num_right
    if flag_values.questions == "complex" and not wanted and not flag_values["num_questions"].present:
        wanted = RIGHT_OF_COMPLEX
    if wanted:
        rows = rows_until_right(dataset, network, wanted, flag_values.seed)
    else:
        rows = draw_rows(len(dataset), flag_values.num_questions, flag_values.seed)
    questions = Questions(dataset, rows, network, ground_truth)
    explainer = _explainer(flag_values, network, dataset, chosen, shared)
    maps_directory = _maps_directory(flag_values, network, chosen) if flag_values.maps_dir else None
    store = _store(flag_values)
    if precompute:
        whole = sharded_run(
            questions, explainer, shared, store, flag_values.batch_size, maps_directory, flag_values.degenerate_maps
        )  # fmt: skip
        failed = precompute([whole]).get(whole.name, [])
        questions = questions.take(np.setdiff1d(rows, failed)) if failed else questions

    measured = measure(
        questions, explainer, None, shared, store, flag_values.batch_size, maps_directory, progress=True,
        degenerate_maps=flag_values.degenerate_maps,
    )  # fmt: skip
    if flag_values.maps_dir:
        from clevr_xai.saved_maps import save_predictions

        explained = zip(measured.indices[measured.right], measured.rows[measured.right], strict=True)
        save_predictions(flag_values.maps_dir, [(index, dataset.answers[row]) for index, row in explained])
    print_line(f"scores kept in {store.directory}", file=sys.stderr)
    return measured, questions, explainer, {shown_model(path): network.model.fingerprint}


def _controls(flag_values, shared) -> list[str]:
    """Return the controls of a run: metrics of all benchmarks are held against the truth itself, too."""
    further = [GROUND_TRUTH.name] if shared and not flag_values["controls"].present else []
    return [*flag_values.controls, *further]


def works(flag_values: flags.FlagValues) -> Callable[[str], ShardedRun]:
    """Return a function from the kind of questions to what this command explains and measures, for workers."""
    from clevr_xai.blocks import Questions
    from clevr_xai.measured import sharded_run

    truths, metrics = _truths_and_metrics(flag_values)
    shared = {name: metric for name, metric in metrics.items() if name not in ACCURACIES}
    chosen = _settings(flag_values)
    _, network, dataset = _network_and_data(flag_values)
    found = sharded_run(
        Questions(dataset, range(len(dataset)), network, truths[0]),
        _explainer(flag_values, network, dataset, chosen, shared),
        shared,
        batch_size=flag_values.batch_size,
        maps_directory=_maps_directory(flag_values, network, chosen) if flag_values.maps_dir else None,
        degenerate_maps=flag_values.degenerate_maps,
    )
    return {found.name: found}.__getitem__


def _settings(flag_values):
    """Return the methods with their settings."""
    chosen = methods.settings(
        flag_values.methods, flag_values.steps, flag_values.samples, flag_values.noise,
        flag_values.batch_norm, flag_values.layer, flag_values.tolerance,
    )  # fmt: skip
    if not chosen and not set(flag_values.controls) & set(controls.MAPS):
        raise BadInput("--methods is empty and there are no controls; name at least one method")
    unknown = [name for name in flag_values.control_methods if name not in chosen]
    if unknown:
        raise BadInput(f"--control_methods has '{unknown[0]}', which is not scored; choose of {listed(chosen)}")
    return chosen


def _network_and_data(flag_values):
    """Return the path of the network, the network and the data set."""
    path = _model_path(flag_values)

    from clevr_xai.answering import Answering
    from clevr_xai.dataset import Dataset
    from clevr_xai.live_network import attach_live_network

    # A model is compiled into several functions on purpose; TensorFlow takes that for a mistake.
    logging.getLogger("tensorflow").addFilter(lambda record: "tf.function retracing" not in record.getMessage())
    network = Answering(path)
    network.model.live_source = functools.partial(attach_live_network, network=network)
    if flag_values.layer:
        network.model.layer(flag_values.layer, "image")  # refuses a layer that is none
    return path, network, Dataset(flag_values.questions, flag_values.data_dir, network.size)


def _explainer(flag_values, network, dataset, chosen, shared):
    """Return what makes the maps."""
    from attribution_benchmarks.core.explainer import Explainer

    asked = controls.asked_of(dataset, network, _controls(flag_values, shared), flag_values.random_networks)
    controlled = {control.name: flag_values.control_methods or _cheap(control, chosen) for control in asked}
    return Explainer(network.model, chosen, asked, controlled, flag_values.seed, flag_values.batch_size)


def _cheap(control: Control, chosen) -> list[str]:
    """Return the methods that a control is asked of where nothing was said: those that can be asked so often."""
    further = (
        MapSource(control=control.name).kind.name == RANDOM_WEIGHTS.name and control.name != random_network(1).name
    )
    return [name for name in chosen if name not in methods.COSTLY and not (further and name in methods.MASKED)]


def _store(flag_values) -> ScoreStore | None:
    """Return where scores are kept; maps made elsewhere keep none."""
    return None if flag_values.from_maps else ScoreStore(str(_scores_dir(flag_values)))


def _scores_dir(flag_values) -> pathlib.Path:
    return pathlib.Path(flag_values.scores_dir or cache_directory("clevr_xai_scores"))


def _maps_directory(flag_values, network, chosen):
    """Return where maps are saved."""
    from attribution_benchmarks.core.saved_maps import MapsDirectory

    settings = {
        name: {k: repr(v) for k, v in method.parameters(given).items()} for name, (method, given) in chosen.items()
    }
    pooling = flag_values.maps_pooling
    origin = {
        "model": network.model.fingerprint, "questions": flag_values.questions, "seed": flag_values.seed,
        "settings": settings, "pooling": pooling,
    }  # fmt: skip
    reduced = (lambda one: pool(one[np.newaxis], [pooling])[pooling][0]) if pooling else None
    return MapsDirectory(flag_values.maps_dir, origin, reduced)


def _fit(flag_values) -> str:
    """Say how a network that fits CLEVR-XAI does on questions, and which layer its class activation maps are of."""
    from clevr_xai.answering import Answering
    from clevr_xai.blocks import draw_rows
    from clevr_xai.dataset import Dataset

    path = _model_path(flag_values)
    network = Answering(path)
    layer = network.model.layer(flag_values.layer or None, "image")
    dataset = Dataset(flag_values.questions, flag_values.data_dir, network.size)
    rows = draw_rows(len(dataset), flag_values.num_questions, flag_values.seed)
    right = 0
    for batch in dataset.batches(flag_values.batch_size, rows):
        logits = network.model.scores(network.inputs(batch.images, batch.questions), flag_values.batch_size)
        right += int((logits.argmax(axis=1) == network.targets(batch.answers)).sum())
    return (
        f"{shown_model(path)} fits CLEVR-XAI: images of {network.size} pixels, {len(network.words)} words, "
        f"{len(network.answers)} answers; {right} of {len(rows)} {flag_values.questions} questions right; class "
        f"activation maps of the layer {layer}"
    )


def _from_maps(flag_values, ground_truth, shared):
    """Score the maps of a folder."""
    from attribution_benchmarks.core.saved_maps import SavedMaps, saved_methods, with_all_maps
    from clevr_xai import saved_maps
    from clevr_xai.blocks import Questions, draw_rows
    from clevr_xai.dataset import Dataset
    from clevr_xai.measured import measure

    given = flag_values.methods if flag_values["methods"].present else ()
    folders = saved_methods(flag_values.from_maps, given)
    dataset = Dataset(flag_values.questions, flag_values.data_dir, saved_maps.side(folders))
    rows = draw_rows(len(dataset), flag_values.num_questions, flag_values.seed)
    there = with_all_maps([dataset.questions[row]["question_index"] for row in rows], folders)
    if not any(there):
        raise BadInput(f"none of the questions drawn has maps of all methods in {listed(map(str, folders.values()))}")
    predictions = saved_maps.read_predictions(flag_values.from_maps)
    questions = Questions(dataset, rows[there], ground_truth=ground_truth)
    extra = [control for name, control in controls.MAPS.items() if name in _controls(flag_values, shared)]
    explainer = SavedMaps(folders, extra, flag_values.seed)

    measured = measure(
        questions,
        explainer,
        predictions,
        shared,
        None,
        flag_values.batch_size,
        degenerate_maps=flag_values.degenerate_maps,
    )
    return measured, questions, explainer, {}


def _model_path(flag_values) -> pathlib.Path:
    """Return the directory of the network to explain."""
    if flag_values.model:
        return pathlib.Path(flag_values.model)
    for name in [f"relation_network_{flag_values.questions}", "relation_network"]:
        if (MODELS / name).is_dir():
            return MODELS / name
    raise BadInput(
        "the default network is missing; train it with scripts/train_relation_network.py, or give a SavedModel with "
        "--model="
    )


def _heading(measured, dataset, sources, confidence) -> list[str]:
    """Return what was asked and how much of it counts."""
    total, right = len(measured.rows), int(measured.right.sum())
    who = next(iter(sources), "saved maps")
    lines = [f"CLEVR-XAI, {measured.kind} questions: {total:,} of {len(dataset):,} drawn, {who}"]
    if measured.confidence is not None or right < total:
        lines.append(
            f"{right:,} answered rightly ({100 * right / total:.1f} %) and counted, {total - right:,} wrongly and "
            "skipped"
        )
    if measured.confidence is not None:
        sure = int((measured.right & (measured.confidence > confidence)).sum())
        lines.append(
            f"{sure:,} of them with a softmax above {confidence:g}"
            if sure
            else f"none of them with a softmax above {confidence:g}, so that the poster's subset is empty"
        )
    for truth, pixels in measured.pixels.items():
        missing = int((measured.right & (pixels == 0)).sum())
        if missing:
            lines.append(f"{missing:,} of them have no mask '{truth}' and do not count there")
    return lines


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
