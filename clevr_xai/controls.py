"""What a method must beat to have explained something: maps that know no network, and what should spoil a map.

Sixt and Landgraf, "A Rigorous Study of the Deep Taylor Decomposition", TMLR 2022, explain another class and another
question: a map that stays on the same objects does not depend on the question. All but the question are the controls
of every benchmark.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence

from attribution.model import batching
from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.core.controls import EDGE_DETECTOR, GROUND_TRUTH, RANDOM, UNIFORM, WRONG_CLASS, Control
from attribution_benchmarks.core.random_weights import NETWORKS, RANDOM_WEIGHTS, networks
from clevr_xai.vocabulary import words_of

# Known by name and title here; the other question needs the data set, see ``asked_of``.
PERMUTED_QUESTION = Control(
    "permuted_question",
    "other question",
    "the method's map after the words of the question were exchanged for another's",
)
CONTROLS = {
    control.name: control
    for control in (
        WRONG_CLASS,
        PERMUTED_QUESTION,
        RANDOM_WEIGHTS,
        dataclasses.replace(UNIFORM, about=f"{UNIFORM.about}; it scores the objects' share of the image"),
        RANDOM,
        EDGE_DETECTOR,
        GROUND_TRUTH,
    )
}
BY_DEFAULT = tuple(name for name in CONTROLS if name != GROUND_TRUTH.name)  # the truth has all of mass and rank
MAPS = {name: control for name, control in CONTROLS.items() if control.maps}  # they know no network
OF_METHODS = {name: control.title for name, control in CONTROLS.items() if name not in MAPS}  # under a method's name
TITLES = {name: control.title for name, control in CONTROLS.items()}


def asked_of(dataset, network, names: Sequence[str], random_networks: int = NETWORKS) -> list[Control]:
    """Return controls of a run, in the order of the tables.

    Parameters
    ----------
    dataset
        Where other questions come from.
    network : clevr_xai.answering.Answering
        What they are put to.
    names
        Of ``CONTROLS``.
    random_networks
        How many "random_weights" stands for, each a control of its own.
    """
    chosen = networks((control for name, control in CONTROLS.items() if name in names), random_networks)
    if PERMUTED_QUESTION not in chosen:
        return chosen
    sentences = [question["question"] for question in dataset.questions]

    def another_question(model, batch: Batch, seed: int) -> tuple[object, Batch]:
        others = other_questions(sentences, batch.truth["row"], seed)
        encoded = network.encoded([sentences[other] for other in others])
        return model, dataclasses.replace(batch, inputs={**batch.inputs, "question": encoded})

    words = hashlib.sha256("\n".join(sentences).encode()).hexdigest()
    permuted = dataclasses.replace(PERMUTED_QUESTION, disturb=another_question, depends_on=words)
    return [permuted if control is PERMUTED_QUESTION else control for control in chosen]


def other_questions(sentences: Sequence[str], rows: Sequence[int], seed: int) -> list[int]:
    """Return for some questions another one of the data set, which has other words.

    Parameters
    ----------
    sentences
        All questions of the data set.
    rows
        Those that need another.
    seed
        Of the run; the choice depends on it, the row and the data set alone.

    Returns
    -------
    list of int
        A row each; the row itself where all questions are the same.
    """
    found = []
    for row in rows:
        words = words_of(sentences[row])
        order = batching.generator(seed, int(row), "another question").permutation(len(sentences))
        found.append(next((int(other) for other in order if words_of(sentences[other]) != words), int(row)))
    return found
