"""Ask several networks the same questions: how much of the methods' order is the network's, and how much theirs.

    python -m research.clevr_xai.compare_networks --num_questions=50 --steps=64 --samples=16
    python -m research.clevr_xai.compare_networks --models=first,second,third --questions=complex --output=networks.md

Without --models the two networks that come with the project are asked: the default, and one of another seed.

Only questions that all of them answer correctly count, so that every figure is of the same images, masks and answers.
Scores are those of clevr_xai.evaluate, and are found again where it has made them. --output=FILE.md writes what is
printed, with the command; .json, the scores in long form. --plot_dir=FOLDER draws each method's mean under each network
with its interval, and the poster's.

Cost: for each network what clevr_xai.evaluate costs, and nothing for scores that are there; see its --help for figures
of 100 questions.
"""

from __future__ import annotations

import pathlib
import sys

from absl import flags

from attribution import cli
from attribution.errors import BadInput, listed, print_line, print_text
from attribution.file_io.paths import cache_directory, check_directory
from attribution_benchmarks.cli.bundled_models import default_model, shown_model
from attribution_benchmarks.cli.figures import check_plot_format, define_plot_format, save_figure
from attribution_benchmarks.core import manifest, tables
from attribution_benchmarks.core.store import ScoreStore
from clevr_xai import controls, masks, methods, subsets
from clevr_xai.metrics import ACCURACIES

_SHIPPED = ("relation_network", "relation_network_seed1")
_TRUTHS = {"simple": "single_object", "complex": "union"}
_PLACES = ("cache_dir", "output", "plot_dir", "plot_format", "scores_dir")

FLAGS = flags.FlagValues()
cli.define_common_flags(
    FLAGS, methods=list(methods.TITLES), data_dir="", num_questions=100, batch_size=8, seed=0, output="", cache_dir=""
)
cli.define_common_flags(FLAGS, trust_model=False)
flags.DEFINE_list(
    "models", [], "directories of two SavedModels or more, separated by commas; the two that come with the project "
    "when empty", flag_values=FLAGS,
)  # fmt: skip
flags.DEFINE_enum("questions", "simple", list(masks.GROUND_TRUTHS), "kind of the questions", flag_values=FLAGS)
flags.DEFINE_string(
    "ground_truth", "", "mask to score against; single_object, or union of complex questions", flag_values=FLAGS
)
flags.DEFINE_enum("metric", "mass", list(ACCURACIES), "mass or rank", flag_values=FLAGS)
flags.DEFINE_enum(
    "subset", "all", list(subsets.SUBSETS), "questions to compare on: confident ones are so for every network",
    flag_values=FLAGS,
)  # fmt: skip
flags.DEFINE_integer("steps", methods.STEPS, "intervals of Integrated Gradients' path", 1, flag_values=FLAGS)
flags.DEFINE_float(
    "tolerance", methods.TOLERANCE, "of its completeness; see clevr_xai.evaluate", 0, 0.5, flag_values=FLAGS
)
flags.DEFINE_integer("samples", methods.SAMPLES, "noisy copies of SmoothGrad and VarGrad", 1, flag_values=FLAGS)
flags.DEFINE_list(
    "controls", [name for name in controls.MAPS if name in controls.BY_DEFAULT], "of " + ", ".join(controls.MAPS),
    flag_values=FLAGS,
)  # fmt: skip
flags.DEFINE_string("scores_dir", "", "folder of stored scores; below the user's cache when empty", flag_values=FLAGS)
flags.DEFINE_string("plot_dir", "", "folder for a picture of the order", flag_values=FLAGS)
define_plot_format(FLAGS)


def main(flag_values: flags.FlagValues) -> None:
    """Check the flags, score every network, print, save."""
    truth, paths, chosen = _checked(flag_values)

    from research.clevr_xai import network_order

    store = ScoreStore(flag_values.scores_dir or str(cache_directory("clevr_xai_scores")))
    measured, fingerprints = {}, {}
    for number, path in enumerate(paths, start=1):
        print_line(f"network {number} of {len(paths)}: {path}", file=sys.stderr)
        name = shown_model(pathlib.Path(path))
        measured[name], fingerprints[name] = _measured(flag_values, path, chosen, store)
    found = network_order.compare(
        measured, truth, flag_values.metric, flag_values.subset, controls=flag_values.controls, seed=flag_values.seed
    )
    text = network_order.text(found)
    print_text(text, flush=True)
    if flag_values.output:
        command = manifest.command_of("python -m research.clevr_xai.compare_networks", flag_values, without=_PLACES)
        described = manifest.describe_run(
            "clevr_xai", models=fingerprints, data={flag_values.questions: found.fingerprint}, seed=flag_values.seed,
            command=command,
        )  # fmt: skip
        markdown = network_order.text(found, markdown=True, command=command)
        tables.save(flag_values.output, network_order.long_rows(found), described, text=text, markdown=markdown)
    if flag_values.plot_dir:
        figure, stem = network_order.order_figure(found), f"order_{flag_values.metric}_{truth}"
        for written in save_figure(figure, flag_values.plot_dir, stem, flag_values.plot_format, trim=False):
            print_line(f"picture: {written}", file=sys.stderr)


def _checked(flag_values: flags.FlagValues) -> tuple[str, list[str], dict]:
    """Check all flags before any network is scored; return the ground truth, the networks and the methods."""
    tables.check_output(flag_values.output)
    check_plot_format(flag_values.plot_format)
    check_directory("plot_dir", flag_values.plot_dir)
    check_directory("scores_dir", flag_values.scores_dir)
    truth = flag_values.ground_truth or _TRUTHS[flag_values.questions]
    for flag, names, known in (
        ("ground_truth", [truth], masks.GROUND_TRUTHS[flag_values.questions]),
        ("controls", flag_values.controls, controls.MAPS),
    ):
        for name in names:
            if name not in known:
                raise BadInput(f"--{flag} has no {name!r}; choose of {listed(known)}")
    paths = list(dict.fromkeys(flag_values.models or (str(default_model("clevr_xai") / name) for name in _SHIPPED)))
    if len(paths) < 2:
        raise BadInput("--models names fewer than two networks; write --models=first,second")
    chosen = methods.settings(
        flag_values.methods, flag_values.steps, flag_values.samples, tolerance=flag_values.tolerance
    )
    if len(chosen) < 2:
        raise BadInput("--methods names fewer than two methods, so there is no order to compare")
    if missing := [path for path in paths if not pathlib.Path(path).is_dir()]:
        raise BadInput(f"--models={missing[0]}: there is no such directory; name a SavedModel")
    return truth, paths, chosen


def _measured(flag_values, path, chosen, store):
    """Return what one network's maps score, and its fingerprint."""
    from attribution_benchmarks.core.explainer import Explainer
    from clevr_xai.answering import Answering
    from clevr_xai.blocks import Questions, draw_rows
    from clevr_xai.dataset import Dataset
    from clevr_xai.measured import measure

    network, batch_size, seed = Answering(path), flag_values.batch_size, flag_values.seed
    dataset = Dataset(flag_values.questions, flag_values.data_dir, network.size)
    questions = Questions(dataset, draw_rows(len(dataset), flag_values.num_questions, seed), network)
    known = controls.asked_of(dataset, network, flag_values.controls)
    explainer = Explainer(network.model, chosen, known, (), seed, batch_size)
    measured = measure(questions, explainer, store=store, batch_size=batch_size, progress=True)
    return measured, network.model.fingerprint


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
