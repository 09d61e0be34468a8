"""Score the concept "dog" with TCAV in the layers of a BIM model, and contrast two models.

    python -m bim.run_tcav --model=obj

CAVs of dogs against random counterparts, at block_layer1 to block_layer4 and the logits; the class is the one
of the images of dogs in bedrooms: dog for the object model, bedroom for a scene model. The contrast is BIM's
own measure: the dog should matter more to the object model than to the scene model. A model of your own is

    python -m bim.run_tcav --model=my/model --target=dog --contrast_with=my/other --contrast_target=bedroom

Cost: 33 CPU seconds for two networks at the first run, nine of them for drawing 1,200 images.
"""

from __future__ import annotations

import os
import sys

import numpy as np
from absl import flags

from attribution import cli
from attribution.errors import BadInput, print_line, print_text
from attribution_benchmarks.core import manifest, tables
from attribution_benchmarks.stats import comparisons, statistics
from bim import tcav
from bim.layout import MODEL_NAMES, SAVED_MODELS, define_compat

COUNTERPARTS = {"objects": "other objects on scenes", "scenes": "scenes alone"}
LEFT_OUT = (
    "95 % and p are over the random counterparts alone: the concept's images are the same for each of them, and other\n"
    "images of the concept can move a score further than its interval says.\n"
)

FLAGS = flags.FlagValues()
cli.define_common_flags(FLAGS, model="obj", data_dir="", batch_size=32, seed=0, output="", cache_dir="")
FLAGS["model"].help = "obj, scene, ...: a model of --models_dir; or the directory of any SavedModel"
flags.DEFINE_string(
    "target", "", "class that --model gives images of dogs in bedrooms: dog or bedroom; by its name when empty",
    flag_values=FLAGS,
)  # fmt: skip
define_compat(FLAGS)
flags.DEFINE_string("models_dir", SAVED_MODELS, "folder of the models", flag_values=FLAGS)
flags.DEFINE_string("contrast_with", "scene", "model to subtract, as --model; nothing when empty", flag_values=FLAGS)
flags.DEFINE_string("contrast_target", "", "as --target, for --contrast_with", flag_values=FLAGS)
flags.DEFINE_list(
    "layers",
    [],
    "layers to score the concept in, final_dense being the logits; by default block_layer1 to block_layer4 and the "
    "logits, or what a model has for them",
    flag_values=FLAGS,
)
flags.DEFINE_enum(
    "counterparts", "objects", ["objects", "scenes"],
    "counterparts of dogs for a CAV: other objects on scenes, or empty scenes, as in the authors' code",
    flag_values=FLAGS,
)  # fmt: skip
flags.DEFINE_integer("num_random", 10, "random counterparts, each one experiment", 2, flag_values=FLAGS)
flags.DEFINE_float("level", 0.05, "significance level after Holm's correction", 0.0, 1.0, flag_values=FLAGS)


def main(flag_values: flags.FlagValues) -> None:
    """Print a table for each model and one for their contrast."""
    tables.check_output(flag_values.output)
    from bim.dataset import resolve_data_dir
    from bim.measure import classifier_at, load_classifier

    targets = {flag_values.model: tcav.target_class(flag_values.model, flag_values.target)}
    if flag_values.contrast_with and flag_values.contrast_with != flag_values.model:
        targets[flag_values.contrast_with] = tcav.target_class(
            flag_values.contrast_with, flag_values.contrast_target, flag="contrast_target"
        )
    names, found, rows, printed = list(targets), {}, [], []
    upstream = flag_values.compat == "upstream"
    models = {
        name: classifier_at(name, tensors=upstream)
        if os.path.basename(name) != name or name not in MODEL_NAMES
        else load_classifier(flag_values.models_dir, name, tensors=upstream)
        for name in names
    }
    fingerprints = {name: model.fingerprint for name, model in models.items()}
    images = tcav.load_images(
        resolve_data_dir(flag_values.data_dir), flag_values.num_random, flag_values.counterparts, flag_values.seed
    )
    layers = tcav.layers_of(models, flag_values.layers)
    if not flag_values.layers and layers != tcav.LAYERS:
        print_line(f"no block_layer1 to block_layer4 here; scored in {', '.join(layers)} (--layers)", file=sys.stderr)
    for name, model in models.items():
        found[name] = tcav.score_concept(
            model, targets[name], images, layers, seed=flag_values.seed, batch_size=flag_values.batch_size
        )
        rows += _score_rows(name, found[name])
        printed.append(
            _table(name, found[name], rows[-len(found[name]) :], flag_values.level, flag_values.counterparts)
        )
        print_text(printed[-1] + "\n", flush=True)
    if len(names) == 2:
        contrast = _contrast_rows(names, found)
        rows += contrast
        printed.append(_contrast_table(names, contrast))
        print_text(printed[-1] + "\n")
    if flag_values.output:
        command = manifest.command_of("python -m bim.run_tcav", flag_values)
        description = manifest.describe_run(
            "bim", fingerprints, {"tcav": tcav.fingerprint(images)}, flag_values.seed, command
        )
        tables.save(flag_values.output, rows, description, text="\n".join(printed) + "\n")


def _score_rows(model_name: str, found: list[tcav.ConceptScores]) -> list[dict]:
    """Return one row a layer in long form; the interval is over the random counterparts."""
    corrected = comparisons.holm([scores.p_value for scores in found])
    rows = []
    for scores, p_value in zip(found, corrected, strict=True):
        estimate = statistics.mean_interval(scores.scores, bounds=(0.0, 1.0))
        rows.append(
            {
                "method": "tcav", "metric": "tcav", "value": estimate.value, "low": estimate.low,
                "high": estimate.high, "n": estimate.n, "paper": None, "kind": "method", "model": model_name,
                "layer": scores.layer, "random": float(scores.random_scores.mean()),
                "accuracy": float(scores.accuracies.mean()), "p_value": scores.p_value,
                "p_corrected": float(p_value),
            }
        )  # fmt: skip
    return rows


def _contrast_rows(names, found) -> list[dict]:
    """Return the contrast of two models, layer by layer, paired over the random counterparts."""
    rows = []
    for first, second in zip(found[names[0]], found[names[1]], strict=True):
        paired = comparisons.compare(first.scores, second.scores)
        rows.append(
            {
                "method": "tcav", "metric": "tcav_contrast", "value": paired.difference, "low": paired.low,
                "high": paired.high, "n": paired.n, "paper": None, "kind": "method",
                "model": f"{names[0]} - {names[1]}", "layer": first.layer, "p_value": paired.p_value,
            }
        )  # fmt: skip
    if not rows:
        raise BadInput("no layers to contrast")
    return rows


def _table(name: str, found, rows, level: float, counterparts: str = "objects") -> str:
    """Return one model's scores for reading."""
    body = [
        [
            row["layer"], f"{row['value']:.3f}", f"{row['low']:.3f}, {row['high']:.3f}", f"{row['random']:.3f}",
            f"{row['accuracy']:.2f}", f"{row['p_value']:.2g}", f"{row['p_corrected']:.2g}",
            "yes" if row["p_corrected"] < level else "no",
        ]
        for row in rows
    ]  # fmt: skip
    header = ["layer", "TCAV", "95 %", "random CAVs", "CAV accuracy", "p", "p (Holm)", "significant"]
    count = len(found[0].scores)
    heading = (
        f"TCAV of the concept 'dog' for the model '{name}', {count} random counterparts ({COUNTERPARTS[counterparts]})"
    )
    return f"{heading}\n{tables.text_table(header, body)}{LEFT_OUT}"


def _contrast_table(names, rows) -> str:
    """Return the contrast for reading."""
    body = [
        [row["layer"], f"{row['value']:.3f}", f"{row['low']:.3f}, {row['high']:.3f}", f"{row['p_value']:.2g}"]
        for row in rows
    ]
    mean = np.mean([row["value"] for row in rows])
    heading = f"TCAV of '{names[0]}' minus '{names[1]}'; more is better; mean over the layers {mean:.3f}"
    return f"{heading}\n{tables.text_table(['layer', 'difference', '95 %', 'p'], body)}{LEFT_OUT}"


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
