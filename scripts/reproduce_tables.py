"""Compute every table of SVEA, BIM and CLEVR-XAI, one matrix of all, and a report to read them in.

    python scripts/reproduce_tables.py --output_dir=report
    python scripts/reproduce_tables.py --output_dir=report --quick
    python scripts/reproduce_tables.py --output_dir=report --methods=my_method.py:my_function

Everything comes from the SavedModels and data of the repository; what data are not shipped are made. Under 15 minutes
on two cores, with --quick under 3. A run that was stopped, by whatever, goes on where it stood and ends with the same
bytes. Open report/index.html; the tables are in report/tables.

Methods of your own are scored beside all others in every benchmark they fit. --model=DIRECTORY puts a SavedModel of
your own in place of the network of every benchmark whose inputs it takes; in BIM, of the network that names objects.
"""

import pathlib
import resource
import shlex
import sys

from absl import flags

import attribution
from attribution_benchmarks import command_line
from attribution_benchmarks.command_line import BadInput, listed
from attribution_benchmarks.leaderboard import input_scores
from attribution_benchmarks.leaderboard.fingerprints import source_of
from attribution_benchmarks.report import publish
from attribution_benchmarks.report.page import Result
from attribution_benchmarks.report.reproduction import Refused, Runner, Unit, only_run
from bim.attributions import MAPS as BIM_MAPS
from bim.attributions import PRINTED as BIM_METHODS
from bim.controls import CONTROLS as BIM_CONTROLS
from clevr_xai.controls import TITLES as CLEVR_XAI_CONTROLS
from clevr_xai.methods import TITLES as CLEVR_XAI_METHODS
from svea.controls import TITLES as SVEA_CONTROLS
from svea.methods import METHODS as SVEA_METHODS

BENCHMARKS = ("svea", "bim", "clevr_xai")
# Cheap methods of the other benchmarks' papers, so that more of the matrix can be compared.
SHARED = (
    "gradient_x_input", "guided_backprop", "guided_grad_cam", "deconvnet", "vargrad", "lrp_alpha1beta0",
    "excitation_backprop", "grad_cam_plus_plus", "xgrad_cam", "score_cam", "sise",
)  # fmt: skip
COSTLY_IN_BIM = "integrated_gradients_smoothgrad"  # nine tenths of the cost of all of BIM's methods
REASONS = {
    ("rise", "bim"): "a thousand masked images an explanation: more than all other methods together",
    ("rise", "clevr_xai"): "a thousand masked images an explanation: more than all other methods together",
    (COSTLY_IN_BIM, "svea"): "625 gradients an explanation; a variant of BIM's authors",
    (COSTLY_IN_BIM, "bim"): "625 gradients an explanation; left out of the quick run",
    (COSTLY_IN_BIM, "clevr_xai"): "625 gradients an explanation; a variant of BIM's authors",
    ("lrp_clevr_xai", "svea"): "its rule for the first layer needs inputs between 0 and 1; see LRP-α1β0",
    ("lrp_clevr_xai", "bim"): "its rule for the first layer needs inputs between 0 and 1; see LRP-α1β0",
}

FLAGS = flags.FlagValues()
command_line.define_common_flags(FLAGS, methods=[], model="", seed=0)
FLAGS[
    "methods"
].help = "methods to score besides the benchmarks' own: names of the registry, module:function or file.py:function"
FLAGS["model"].help = "SavedModel of your own, scored in the benchmarks whose inputs it takes"
flags.DEFINE_string("output_dir", "report", "directory of the report; made if missing", flag_values=FLAGS)
flags.DEFINE_bool("quick", False, "fewer inputs, samples and masks: a look in under 3 minutes", flag_values=FLAGS)
flags.DEFINE_list("benchmarks", list(BENCHMARKS), "which of svea, bim, clevr_xai to run", flag_values=FLAGS)


def units(quick: bool, seed: int = 0) -> list[Unit]:
    """Return the commands that give all tables, with the settings of a quick or a whole run."""
    masks = 200 if quick else 1000
    images, contrast_images, counterparts = (6, 4, 4) if quick else (60, 10, 10)
    questions, steps, samples = (8, 10, 10) if quick else (75, 100, 40)
    bim = [*BIM_METHODS, *SHARED]
    if quick:
        bim.remove(COSTLY_IN_BIM)
    clevr_xai = tuple(dict.fromkeys([*CLEVR_XAI_METHODS, *SHARED]))
    contrasted = tuple(name for name in BIM_METHODS if name != COSTLY_IN_BIM)[: 4 if quick else None]
    seeded = (f"--seed={seed}",) if seed else ()
    main_metrics = ("--metrics=MCS,IDR,IIR", f"--num_imgs={images}", *seeded)
    found = [
        Unit(
            "svea", "svea", "SVEA, Table 1", ("-m", "svea.benchmark", f"--rise_masks={masks}", *seeded),
            tuple(dict.fromkeys([*SVEA_METHODS, *SHARED])),
            f"All 5,000 signals, 1,000 of them scored; RISE with {masks:,} masks. The paper's nine methods, and "
            "methods of the other benchmarks, which the paper has no figure for.",
            model_flag="--model=",
        ),
        Unit(
            "bim", "bim", "BIM: MCS, IDR and IIR", ("-m", "bim.metrics", *main_metrics), tuple(dict.fromkeys(bim)),
            f"{images} images of each drawn set with the authors' parameters; those count that both networks of a pair "
            "classify rightly. The paper scores up to 10,000 photographs.",
            model_flag="--models=obj=",
        ),
        Unit(
            "bim_rmcs", "bim", "BIM: relative MCS",
            ("-m", "bim.metrics", "--metrics=RMCS", f"--num_imgs={contrast_images}", *seeded),
            contrasted,
            f"{contrast_images} images under ten networks, without {BIM_MAPS[COSTLY_IN_BIM].title}, whose 625 "
            "gradients an image would take longer than all else.",
            input_scores=False,
        ),
        Unit(
            "bim_tcav", "bim", "BIM: TCAV", ("-m", "bim.run_tcav", f"--num_random={counterparts}", *seeded),
            note=f"The concept “dog” against {counterparts} random counterparts.",
            input_scores=False, scores=False, pictures=False,
        ),
    ]  # fmt: skip
    for kind, truths in (("simple", "single_object"), ("complex", "union,unique")):
        asked = (
            "-m", "clevr_xai.evaluate", f"--questions={kind}", "--metrics=mass,rank", f"--ground_truth={truths}",
            f"--num_questions={questions}", f"--steps={steps}", f"--samples={samples}", *seeded,
        )  # fmt: skip
        found.append(
            Unit(
                f"clevr_xai_{kind}", "clevr_xai", f"CLEVR-XAI: {kind} questions",
                (*asked, "--num_pictures=2", "--control_methods=lrp_clevr_xai,gradient,guided_backprop,grad_cam"),
                clevr_xai,
                f"{questions} questions drawn; those count that the network answers rightly. Integrated Gradients with "
                f"{steps} steps, SmoothGrad and VarGrad with {samples} samples; the paper takes at least 300 of each.",
                trial=(*asked, "--controls=uniform"),
                model_flag="--model=",
            )
        )  # fmt: skip
    return found


def titles() -> dict[str, str]:
    """Return the name to print of every method and control."""
    return {
        **{name: method.title for name, method in BIM_MAPS.items()},
        **{name: method.title for name, method in attribution.METHODS.items()},
        **{name: control.title for name, control in BIM_CONTROLS.items()},
        **CLEVR_XAI_CONTROLS,
        **SVEA_CONTROLS,
    }


def main(flag_values) -> None:
    """Check everything the user gave, run what is not there yet, and write the report."""
    unknown = [name for name in flag_values.benchmarks if name not in BENCHMARKS]
    if unknown or not flag_values.benchmarks:
        raise BadInput(f"--benchmarks={','.join(flag_values.benchmarks)}; choose of {listed(BENCHMARKS)}")
    added = list(dict.fromkeys(flag_values.methods))
    for name in added:
        attribution.resolve_method(name)
    own = [name for name in added if ":" in name]
    files = [source_of(name) for name in own]
    if flag_values.model:
        if not pathlib.Path(flag_values.model).is_dir():
            raise BadInput(f"--model={flag_values.model}: there is no such directory; name a SavedModel")
        files.append(pathlib.Path(flag_values.model))
    directory = pathlib.Path(flag_values.output_dir)
    if directory.exists() and not directory.is_dir():
        raise BadInput(f"--output_dir={directory} is a file; name a directory")
    chosen = [unit for unit in units(flag_values.quick, flag_values.seed) if unit.benchmark in flag_values.benchmarks]
    with only_run(directory) as lock:
        runner, reasons, notes, results = Runner(directory, lock, files), dict(REASONS), [], []
        for number, unit in enumerate(chosen, start=1):
            say(f"[{number}/{len(chosen)}] {unit.title}")
            results.append(run(runner, unit, added, flag_values.model, reasons, notes))
            print(f"{unit.title}\n{unit.note}\n\n{results[-1].printed or results[-1].failed}\n", flush=True)
        scores = {
            name: [
                group
                for unit, result in zip(chosen, results, strict=True)
                if unit.benchmark == name and unit.input_scores and result.document
                for group in input_scores.load(runner.values_file(unit))
            ]
            for name in flag_values.benchmarks
        }
        settings = {
            "command": " ".join(["python scripts/reproduce_tables.py", *map(shlex.quote, _given(flag_values))]),
            "lead": lead(flag_values.quick, own, flag_values.model),
            "footer": "Made by scripts/reproduce_tables.py; every figure on this page was computed by it.",
        }
        print(
            publish.publish(
                directory, results, scores, titles(), settings, reasons, own, list(dict.fromkeys(notes)),
                flag_values.seed,
            )
        )  # fmt: skip
    used = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    say(f"{sum(part.ru_utime + part.ru_stime for part in used):.0f} CPU seconds")
    say(f"open {directory / 'index.html'}")
    failed = [result for result in results if result.failed]
    if failed:
        raise BadInput(f"{listed(result.title for result in failed)} could not be computed: {failed[0].failed}")


def run(runner: Runner, unit: Unit, added, model: str, reasons: dict, notes: list) -> Result:
    """Run a unit with what the user added to it, as far as the benchmark takes it."""
    accepted = []
    if unit.methods:
        for name in (name for name in added if name not in unit.methods):
            refused = runner.attempt(unit, [name])
            if refused is None:
                accepted.append(name)
            else:
                reasons[name, unit.benchmark] = refused
                notes.append(f"{name} does not fit {unit.title}: {refused}")
    wanted = unit.with_methods([*unit.methods, *accepted])
    if model and unit.model_flag:
        try:
            return _result(runner, unit, wanted.with_model(model), f" The network is your own, {model}.")
        except Refused as error:
            notes.append(f"{model} does not fit {unit.title}, whose own network is scored instead: {error}")
    try:
        return _result(runner, unit, wanted)
    except Refused as error:
        return Result(unit.name, unit.benchmark, unit.title, unit.note, None, failed=str(error))


def _result(runner: Runner, unit: Unit, wanted: Unit, note: str = "") -> Result:
    if not runner.run(wanted):
        say("  is there already")
    pictures = runner.directory / "pictures" / unit.name
    return Result(
        unit.name,
        unit.benchmark,
        unit.title,
        unit.note + note,
        runner.document(unit),
        (runner.directory / "tables" / f"{unit.name}.txt").read_text(encoding="utf-8"),
        sorted(pictures.glob("*.png")) if unit.pictures else (),
    )


def lead(quick: bool, own, model: str) -> str:
    """Return the sentence below the report's heading."""
    text = "Which maps point at what matters, where what matters is known: three benchmarks, one table."
    if quick:
        text += " A quick run, with few inputs: its intervals are wide."
    if own:
        text += f" With {'a method' if len(own) == 1 else f'{len(own)} methods'} of your own: {', '.join(own)}."
    return text + (f" With your own network {model}." if model else "")


def _given(flag_values) -> list[str]:
    """Return the flags that were given and say what to compute."""
    without = ("output_dir",)
    return [flag_values[name].serialize() for name in flag_values if flag_values[name].present and name not in without]


def say(text: str) -> None:
    """Tell the user where the run stands."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    command_line.run(main, FLAGS, __doc__)
