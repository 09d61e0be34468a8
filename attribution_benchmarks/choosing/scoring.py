"""Check the method that known truth recommends for a model on a user's own inputs, beside others."""

from __future__ import annotations

import dataclasses
import functools
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import attribution
from attribution.batching import checked_targets
from attribution.errors import BadInput, MissedSum, listed
from attribution.inputs import reads_tokens
from attribution.methods.perturbation import positions
from attribution.methods.registry import ARRAYS
from attribution.trial import try_method
from attribution_benchmarks.choosing import known
from attribution_benchmarks.choosing.choice import INPUT_VALUES, Choice, agreement
from attribution_benchmarks.core.batch import MapSource, by_kind
from attribution_benchmarks.core.controls import EDGE_DETECTOR, RANDOM, UNIFORM, WRONG_CLASS, Control
from attribution_benchmarks.core.definition import Benchmark
from attribution_benchmarks.core.evaluation import ExampleEvaluation, MethodLike, evaluated, named, prepare
from attribution_benchmarks.core.examples import Examples
from attribution_benchmarks.core.progress import Progress, ignored
from attribution_benchmarks.core.random_weights import RANDOM_WEIGHTS, has_variables, with_shuffled_weights
from attribution_benchmarks.core.settings import ExampleSettings
from attribution_benchmarks.core.store import ScoreStore

METRICS = ("faithfulness_correlation", "infidelity")
RANDOM_NETWORKS = 2  # of shuffled weights
_PASSES, _MAPS = 228, 4  # of an input, for its scores; of a method, with its maps under conditions
_LIMITS = (
    "Agreement is measured by replacing positions by other values, on which the network was not trained; methods that "
    "remove positions themselves, such as occlusion, gain from that. On known truth the highest agreement is no better "
    "a guide than the advice."
)


def choose(
    model: Any,
    inputs: np.ndarray | Mapping[str, np.ndarray],
    targets: npt.ArrayLike | None = None,
    methods: Sequence[MethodLike] | Mapping[str, MethodLike] | None = None,
    *,
    groups: Sequence[Any] | None = None,
    background: npt.ArrayLike | None = None,
    explain_input: str | None = None,
    batch_size: int | None = None,
    seed: int = 0,
    progress: Progress = ignored,
    note: Callable[[str], object] = lambda text: None,
) -> Choice:
    """Return the advice and its checks; arguments as of ``attribution_benchmarks.choose``.

    ``note`` is called with an estimate of the time.
    """
    loaded = model if hasattr(model, "at") else attribution.load_model(model)
    explained, examples = _checked(loaded, inputs, targets, groups, background, explain_input)
    kind = known.kind_of(explained, examples.inputs)
    is_vector = examples.inputs.ndim == 2 and kind != "tokens"
    absent = np.array(examples.truth["background"][:1], np.float32) if is_vector else None
    advised = known.ranked(kind)
    chosen = _from_absent({**named(advised[:2]), **named(methods or ())}, absent)
    first = examples.without(range(1, len(examples.names)))
    before, start = _passes(explained), time.perf_counter()
    feed, name = explained.feed(first.feed), first.explained or None
    trials = {label: try_method(method, explained, feed, name) for label, method in chosen.items()}
    passes = {name: trial.passes for name, trial in trials.items() if trial.applies}
    best = next((name for name in advised if name in passes), "")
    if not best:
        raise BadInput(f"'{advised[0]}' does not apply to the model: {trials[advised[0]].reason}")
    seconds = (time.perf_counter() - start) / max(_passes(explained) - before, 1)
    total = len(examples.names) * (_PASSES + _MAPS * sum(passes.values()) + passes[best])
    note(f"{total:,} passes, at most about {seconds * total:.0f} s")
    controls, notes = _references(loaded, examples, seed)
    settings = ExampleSettings(batch_size=explained.batch_size(batch_size), seed=seed, random_networks=RANDOM_NETWORKS)
    benchmark = Benchmark(
        name="own", title="Own inputs", controls=tuple(controls), examples=lambda count, seed: examples
    )
    run = prepare(
        benchmark, {name: chosen[name] for name in passes}, settings, metrics=METRICS, store=ScoreStore(None),
        progress=progress,
    )  # fmt: skip
    evaluation = ExampleEvaluation(run, {"the model": explained}, examples)
    scored = evaluated(evaluation)
    scores = {group.where["metric"]: group.values for group in scored.groups}
    found = {source: agreement(*(scores[metric][source.name] for metric in METRICS)) for source in scored.sources}
    notes += evaluation.facts() or ["The explained classes are those that the network predicts."]
    notes += [_LIMITS, *(f"{name} does not apply: {one.reason}" for name, one in trials.items() if not one.applies)]
    return Choice(
        kind, best, {name: found[MapSource(name)] for name in passes}, own_under_controls(best, found),
        {source.control: values for source, values in found.items() if not source.method},
        examples.clusters, _missed_sum(chosen[best], explained, examples), passes, notes,
    )  # fmt: skip


def _passes(model: Any) -> int:
    return int(model.counts["forward"] + model.counts["backward"])


def _missed_sum(method: MethodLike, model: Any, examples: Examples) -> str:
    """Return where the sums of a method's maps miss the difference of scores that they must have; empty where not."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", MissedSum)
        attribution.explain(method, model, examples.feed, examples.targets, explain_input=examples.explained or None)
    said = [str(one.message).partition(";")[0] for one in caught if issubclass(one.category, MissedSum)]
    return said[0] if said else ""


def _checked(
    model: Any, inputs: Any, targets: Any, groups: Sequence[Any] | None, background: Any, explain_input: str | None
) -> tuple[Any, Examples]:
    """Return the model that takes checked inputs with channels last, and these inputs."""
    feed = dict(model.feed(inputs if isinstance(inputs, Mapping) else np.asarray(inputs)))
    if reads_tokens(model, explain_input):
        (name,) = feed
        if background is None:
            raise BadInput(
                f"input '{name}' has {feed[name].dtype.name} values, such as tokens, which have no mean; say by "
                "background= (--background=) which value replaces a removed one, such as that of padding or of an "
                "unknown word"
            )
    else:
        model = model.at(explain_input, like=feed)
        feed, name = dict(model.feed_of(feed)), model.input
    pictures = np.asarray(feed.pop(name))
    if not len(pictures):
        raise BadInput("inputs are empty; at least one is needed")
    if np.prod(positions(pictures.shape)) < 2:
        raise BadInput(
            f"'{name}' is one number, and methods are compared by parts of what they explain; name several inputs by "
            "comma, or 'all'"
        )
    if single := [other for other, array in feed.items() if np.ndim(array) == 0]:
        raise BadInput(f"input {listed(single)} has no rows; load the model with given={{'{single[0]}': value}}")
    if targets is not None:
        targets = checked_targets(targets, len(pictures), model.num_classes)
    clusters = None if groups is None else [str(one) for one in groups]
    truth = _background(background, pictures)
    return model, Examples(pictures, {}, targets, truth, (), clusters, name if feed else "", feed)


def _background(background: Any, pictures: np.ndarray) -> dict[str, np.ndarray]:
    """Return the values of removed positions of each input; nothing for the input's mean color."""
    if background is None:
        if pictures.ndim > 2:
            return {}
        background = pictures.mean(axis=0)  # the features of a table have no common mean
    values = np.asarray(background)
    if pictures.dtype.kind in "iu" and not np.array_equal(values, values.astype(pictures.dtype)):
        raise BadInput(f"the background {background} is not a whole number, as the inputs are")
    try:
        return {"background": np.broadcast_to(values.astype(pictures.dtype), pictures.shape)}
    except ValueError:
        shape = pictures.shape[1:]
        raise BadInput(f"the background has the shape {values.shape}; a number or {shape} is needed") from None


def _references(loaded: Any, examples: Examples, seed: int) -> tuple[list[Control], list[str]]:
    """Return the references of a method, and notes on those that a model, as it was loaded, does not allow."""
    controls, notes = [UNIFORM, RANDOM], []
    if examples.inputs.dtype.kind not in "iu" or examples.inputs.ndim != 2:  # the number of a word says nothing
        controls.append(EDGE_DETECTOR if examples.inputs.ndim == 4 else INPUT_VALUES)
    try:
        if not has_variables(loaded.path):
            raise BadInput("the file has no variables that could be shuffled")
        other = with_shuffled_weights(loaded.path, seed, loaded.score)
        if (list(other.inputs), other.logits) != (list(loaded.inputs), loaded.logits):
            raise BadInput("the model was loaded with options that choose of its file")
        controls.append(RANDOM_WEIGHTS)
    except BadInput as error:
        notes.append(f"Not tested: whether maps depend on the weights of the network; {error}.")
    if loaded.num_classes > 1:
        controls.append(WRONG_CLASS)
    else:
        notes.append("Not tested: whether maps depend on the class; the model has one.")
    return controls, notes


def own_under_controls(method: str, values: Mapping[MapSource, np.ndarray]) -> dict[str, np.ndarray]:
    """Return condition -> (N,) agreement of a method's own maps under it, the mean over random networks."""
    return {
        kind.control: np.mean([values[one] for one in members], axis=0)
        for kind, members in by_kind(values).items()
        if kind.method == method and kind.control
    }


def _from_absent(methods: Mapping[str, MethodLike], absent: np.ndarray | None) -> dict[str, MethodLike]:
    """Return methods; those of a name that have a baseline start from the values of absent features, (1, features)."""
    found = dict(methods)
    for name, method in methods.items() if absent is not None else ():
        resolved = attribution.resolve_method(method) if isinstance(method, str) else None
        for parameter in [each for each in ARRAYS if resolved and each in resolved.defaults][:1]:
            function = functools.partial(resolved.function, **{parameter: absent})
            found[name] = dataclasses.replace(resolved, function=function)
    return found
