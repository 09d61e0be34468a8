r"""Train a network for CLEVR-XAI and export it as a SavedModel with its words and answers.

    G="python scripts/generate_clevr_xai.py --image_size=192x128 --stored_size=128 --samples=9"
    $G --num_images=9000 --seed=1 --output_dir=data/clevr_xai_training
    $G --num_images=400 --seed=2 --output_dir=data/clevr_xai_validation
    python scripts/train_relation_network.py

trains the paper's Relation Network from nothing: first its question encoder on the questions' programs, then its
convolutions on the objects in the cells of the last feature map, then all of it on answers. ``--data_dir=CLEVR_v1.0``
trains on the official CLEVR, with its split val for validation.

    python scripts/train_relation_network.py --from=saved_models/clevr_xai/relation_network --steps=2000

fine-tunes an exported network, without the first two stages; ``--freeze=question_encoder,norm1,norm2,norm3,norm4``
leaves some of its layers as they are. A stopped run resumes from its last checkpoint.

    $G --num_images=760 --seed=1 --output_dir=data/clevr_xai_attention
    $G --num_images=70 --seed=2 --output_dir=data/clevr_xai_attention_validation
    python scripts/train_relation_network.py --architecture=cross_attention --questions=simple --rounds=6 \
        --data_dir=data/clevr_xai_attention --validation_dir=data/clevr_xai_attention_validation \
        --from=saved_models/clevr_xai/relation_network --take=convolutions,question_encoder \
        --freeze=question_encoder,norm1,norm2,norm3,norm4 --learning_rate=1e-3 --steps=3000

trains a network of another architecture, with the layers of ``--take`` from the file and the others from nothing, in
five CPU minutes.

Cost: 40 steps of the last stage took 45 seconds on two busy cores.
"""

import functools
import os
import pathlib
import sys

from absl import flags

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)

from attribution import cli  # noqa: E402

FLAGS = flags.FlagValues()
cli.define_common_flags(FLAGS, data_dir="data/clevr_xai_training", seed=0)
TEXTS = {
    "validation_dir": ("data/clevr_xai_validation", "data of another seed; not needed for the official CLEVR"),
    "from": ("", "exported network to fine-tune; a new one when empty"),
    "checkpoint_dir": ("data/relation_network", "for checkpoints and logs"),
    "output_dir": ("data/trained/relation_network", "where to export to"),
}
NUMBERS = {
    "num_images": (0, "number of training images, from the first on; 0 for all"),
    "rounds": (4, "rounds of questions about the training scenes"),
    "reading_steps": (6000, "steps that train the question encoder; none with --from"),
    "seeing_steps": (24_000, "steps that train the convolutions; none with --from"),
    "steps": (26_000, "steps that train the network to answer"),
    "images_per_step": (16, "images of a step"),
    "questions_per_image": (8, "questions about each image of a step"),
    "pairs": (294, "pairs of cells that a step sums over, above 100"),
    "checkpoint_steps": (1000, "steps between checkpoints and evaluations"),
    "threads": (2, "threads of one operation"),
}
for name, (default, text) in TEXTS.items():
    flags.DEFINE_string(name, default, text, flag_values=FLAGS)
for name, (default, text) in NUMBERS.items():
    low = {"num_images": 0, "reading_steps": 0, "seeing_steps": 0, "pairs": 101}.get(name, 1)
    flags.DEFINE_integer(name, default, text, low, 2401 if name == "pairs" else None, flag_values=FLAGS)
flags.DEFINE_float("learning_rate", 5e-4, "highest learning rate of the last stage", 0.0, flag_values=FLAGS)
CHOICES = {"questions": ["simple", "complex"], "wording": ["official", "plain"]}
flags.DEFINE_list("questions", CHOICES["questions"], "kinds of questions: simple, complex or both", flag_values=FLAGS)
flags.DEFINE_list("wording", ["official"], "of the questions: official, plain or both", flag_values=FLAGS)
flags.DEFINE_list("freeze", [], "names of layers that keep their weights", flag_values=FLAGS)
flags.DEFINE_list("take", [], "names of layers that alone start from --from; all when empty", flag_values=FLAGS)
ARCHITECTURES = ["relation_network", "cross_attention"]
flags.DEFINE_enum("architecture", ARCHITECTURES[0], ARCHITECTURES, "of the network", flag_values=FLAGS)
# A run that resumes may have other values of these, and more steps.
FREE = ("validation_dir", "output_dir", "checkpoint_dir", "checkpoint_steps", "threads")
STEPS = ("reading_steps", "seeing_steps", "steps")
SLOW = {"convolutions": 0.3}  # factor of the learning rate in the last stage
VALIDATED = 1200  # questions whose accuracy goes to the log


def main(flag_values: flags.FlagValues) -> None:
    """Train what is missing and export."""
    import keras
    import numpy as np
    import tensorflow as tf

    from attribution.errors import BadInput, listed, print_line
    from attribution.files import check_directory, locked_directory
    from attribution.reading import read_json
    from attribution_benchmarks.core.manifest import command_of
    from clevr_xai import cross_attention, relation_network, training
    from clevr_xai.layout import write_json

    for name, known in CHOICES.items():
        if not flag_values[name].value or set(flag_values[name].value) - set(known):
            raise BadInput(f"--{name}={','.join(flag_values[name].value)}: give one or more of {listed(known)}")
    output_dir, directory = pathlib.Path(flag_values.output_dir), pathlib.Path(flag_values.checkpoint_dir)
    if (output_dir / "1").exists():
        raise BadInput(f"'{output_dir / '1'}' exists; name another directory with --output_dir, or remove it")
    check_directory("output_dir", output_dir)
    check_directory("checkpoint_dir", directory)
    tf.config.threading.set_intra_op_parallelism_threads(flag_values.threads)
    keras.utils.set_random_seed(flag_values.seed)
    build = functools.partial(relation_network.build, pair_scale=relation_network.PAIR_SCALE, dropout=0.0)
    if flag_values.architecture == "cross_attention":
        build = cross_attention.build
    start, taken = flag_values["from"].value, flag_values.take
    network = training.load_exported(start, build, taken) if start else build()
    training.freeze(network, flag_values.freeze)
    data, validation = _data(flag_values)
    images, asked, pairs = flag_values.images_per_step, flag_values.questions_per_image, flag_values.pairs
    whole = training.training_model(network, asked)
    some = np.random.default_rng(0).permutation(len(validation.answers))[:VALIDATED]

    def evaluate() -> dict:
        correct = training.is_correct(network, validation, some)
        return {name: round(share, 4) for name, (share, _) in training.accuracies(validation, some, correct).items()}

    stages = [
        ("reading", flag_values.reading_steps, ["question"], ["program"], 1e-3, {}),
        ("seeing", flag_values.seeing_steps, ["image"], ["cells"], 1e-3, {}),
        ("answering", flag_values.steps, [*whole.input], [*whole.output], flag_values.learning_rate, SLOW),
    ]
    if start:  # a whole network goes on without the auxiliary losses, whose heads are new
        outputs = ["answer", *(["cells"] if taken else [])]
        stages = [("answering", flag_values.steps, [*whole.input], outputs, flag_values.learning_rate, SLOW)]
    settings = []
    with locked_directory(directory, "checkpoints"):
        file, given = directory / "settings.json", cli.given(flag_values, without=(*FREE, *STEPS))
        if file.exists() and (known := read_json(file)) != given:
            raise BadInput(f"{directory} has checkpoints of a training with {known}; name another --checkpoint_dir")
        write_json(file, given)
        for number, (name, steps, seen, wanted, rate, factors) in enumerate(stages):
            if not steps:
                continue
            inputs, outputs = {one: whole.input[one] for one in seen}, {one: whole.output[one] for one in wanted}
            training.train(
                keras.Model(inputs, outputs),
                lambda step, number=number: training.answering_batch(
                    data, np.random.default_rng((flag_values.seed, number, step)), images, asked, pairs
                ),
                steps,
                training.Schedule(rate, steps, warm_up=min(200, steps // 10)),
                factors,
                checkpoint=directory / f"{name}.npz",
                every=flag_values.checkpoint_steps,
                evaluate=evaluate if "answer" in wanted else dict,
            )
            settings.append(f"{name}: {steps:,} steps, learning rate {rate:g}")
    rows = np.arange(len(validation.answers))
    correct = training.is_correct(network, validation, rows)
    settings += [
        f"data: {data.source}",
        f"architecture {flag_values.architecture}",
        f"{images} images, {asked} questions about each and {pairs} of 2,401 pairs of cells a step",
        f"starts from {start or 'nothing'}{f', of which it takes {listed(taken)}' if taken else ''}",
        f"frozen layers: {', '.join(flag_values.freeze) or 'none'}",
        f"seed {flag_values.seed}; TensorFlow {tf.__version__}; Keras {keras.__version__}",
    ]
    card = training.model_card(
        training.accuracies(validation, rows, correct),
        source=validation.source,
        wordings=" and ".join(flag_values.wording),
        command=command_of("python scripts/train_relation_network.py", cli.given(flag_values, without=FREE)),
        settings="; ".join(settings),
    )
    relation_network.export(network, output_dir, card)
    for name, (share, number) in training.accuracies(validation, rows, correct).items():
        print_line(f"{name}: {100 * share:.1f} % of {number:,} questions")
    print_line(f"exported to {output_dir / '1'}")


def _data(flag_values: flags.FlagValues) -> tuple:
    """Return the training and the validation set."""
    from attribution.errors import BadInput
    from clevr_xai import layout, training

    data_dir, limit = pathlib.Path(flag_values.data_dir), flag_values.num_images
    if (data_dir / "scenes").is_dir():
        return training.load_clevr(data_dir, "train", limit), training.load_clevr(data_dir, "val", limit)
    validation_dir = pathlib.Path(flag_values.validation_dir)
    files = [layout.find(folder, layout.SCENES) for folder in (data_dir, validation_dir)]
    seeds = [layout.read_info(file).get("seed") if file else None for file in files]
    if seeds[0] == 0:
        raise BadInput(f"{data_dir} has the seed 0 of the embedded scenes, which the benchmark counts; take another")
    if None not in files and seeds[0] == seeds[1]:
        raise BadInput(f"training and validation data both have the seed {seeds[0]}; the scenes must differ")
    kinds, wordings = flag_values.questions, flag_values.wording
    return (
        training.load(data_dir, kinds, flag_values.rounds, wordings, limit),
        training.load(validation_dir, kinds, 1, wordings),
    )


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
