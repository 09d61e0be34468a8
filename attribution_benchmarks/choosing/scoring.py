"""Score the methods that apply to a model on a user's own inputs."""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import attribution
from attribution import METHODS
from attribution.batching import checked_targets
from attribution.errors import BadInput, MissedSum, listed
from attribution.files import origin
from attribution.inputs import reads_tokens
from attribution.methods.perturbation import positions
from attribution.methods.registry import ARRAYS
from attribution.trial import Trial, try_method
from attribution_benchmarks.choosing import verdict as verdicts
from attribution_benchmarks.choosing.choice import INPUT_VALUES, Choice
from attribution_benchmarks.core.batch import MapSource
from attribution_benchmarks.core.controls import EDGE_DETECTOR, RANDOM, UNIFORM, WRONG_CLASS, Control
from attribution_benchmarks.core.definition import Benchmark
from attribution_benchmarks.core.evaluation import ExampleEvaluation, MethodLike, evaluated, named, prepare
from attribution_benchmarks.core.examples import Examples
from attribution_benchmarks.core.explainer import remove_saved_maps
from attribution_benchmarks.core.progress import Progress, ignored
from attribution_benchmarks.core.random_weights import RANDOM_WEIGHTS, has_variables, with_shuffled_weights
from attribution_benchmarks.core.settings import ExampleSettings
from attribution_benchmarks.core.store import ScoreStore

RANDOM_NETWORKS = 2  # of shuffled weights
_CHEAP = 64  # passes of an input up to which a method is tried to its end


def choose(
    model: Any,
    inputs: np.ndarray | Mapping[str, np.ndarray],
    targets: npt.ArrayLike | None = None,
    methods: Sequence[MethodLike] | Mapping[str, MethodLike] | None = None,
    *,
    names: Sequence[str] | None = None,
    background: npt.ArrayLike | None = None,
    explain_input: str | None = None,
    feature_names: Sequence[str] | None = None,
    output_dir: str | os.PathLike[str] | None = None,
    batch_size: int = 8,
    seed: int = 0,
    progress: Progress = ignored,
) -> Choice:
    """Score methods on inputs and compare them with references.

    Parameters
    ----------
    model, inputs, targets, methods
        As of ``attribution_benchmarks.choose``.
    names
        N names of the inputs; numbers where None.
    background
        Values of a removed position, a number or an array of an input's shape with channels last. Where None, the
        input's mean color, and for vectors each feature's mean over the inputs. Tokens need it: the number of padding,
        of a mask or of an unknown word.
    explain_input
        Of a model with several inputs: the one to explain, several by comma, or ``"all"`` of floating point, as of
        ``attribution.explain``; or a tensor inside.
    feature_names
        Names of a vector's features.
    output_dir
        Directory of the maps, which replace those of an earlier call; None saves none.
    batch_size, seed
        Inputs in one pass, and the seed of random numbers.
    progress
        Called with each ``core.progress.Step``.
    """
    loaded = model if hasattr(model, "at") else attribution.load_model(model)
    explained, examples, joined_names = _checked(loaded, inputs, targets, names, background, explain_input)
    is_vector = examples.inputs.ndim == 2 and not _has_tokens(examples)
    absent = np.array(examples.truth["background"][:1], np.float32) if is_vector else None
    chosen = _chosen(methods, absent)
    first = examples.without(range(1, len(examples.names)))
    trials = {name: _tried(method, explained, first) for name, method in chosen.items()}
    refused = {name: trial.reason for name, trial in trials.items() if not trial.applies}
    if len(refused) == len(trials):
        raise BadInput(f"no method applies to the model; '{next(iter(refused))}': {next(iter(refused.values()))}")
    methods = {name: method for name, method in chosen.items() if name not in refused}
    controls, notes = _references(loaded, examples, seed)
    path = pathlib.Path(origin(explained.path))
    model_name = path.parent.name if path.name.isdecimal() else path.name  # of a numbered version
    maps = None if output_dir is None else pathlib.Path(output_dir) / "maps"
    if maps is not None:
        remove_saved_maps(maps)
    settings = ExampleSettings(
        batch_size=batch_size, seed=seed, save_maps=str(maps or ""), random_networks=RANDOM_NETWORKS
    )
    benchmark = Benchmark(name="own", title=model_name, controls=tuple(controls), examples=_given)
    run = prepare(benchmark, methods, settings, metrics=verdicts.METRICS, store=ScoreStore(None), progress=progress)
    evaluation = ExampleEvaluation(run, {model_name: explained}, examples)
    scored = evaluated(evaluation)
    scores = {group.where["metric"]: group.values for group in scored.groups}
    agreement = {
        source: verdicts.agreement(*(scores[metric][source.name] for metric in verdicts.METRICS))
        for source in scored.sources
    }
    classes = examples.targets
    if classes is not None:
        notes += evaluation.facts()
    else:
        classes = explained.scores(examples.feed, batch_size).argmax(axis=1)
        notes.append("The explained classes are those that the network predicts. Whether they are right is not known.")
    return Choice(
        model=model_name,
        verdict=verdicts.verdict(
            {name: agreement[MapSource(name)] for name in methods},
            {name: own_under_controls(name, agreement) for name in methods},
            {source.control: values for source, values in agreement.items() if not source.method},
        ),
        passes={name: trials[name].passes for name in methods},
        refused=refused,
        notes=notes,
        inputs=examples.inputs,
        names=examples.names,
        targets=np.asarray(classes),
        maps=maps,
        features=feature_names or joined_names,
    )


def _checked(
    model: Any, inputs: Any, targets: Any, names: Sequence[str] | None, background: Any, explain_input: str | None
) -> tuple[Any, Examples, list[str] | None]:
    """Return the model that takes checked inputs with channels last, these inputs, and names of joined features."""
    if names and len(set(names)) < len(names):
        raise BadInput("two inputs have one name; their maps are files of these names, so rename one")
    feed = dict(model.feed(inputs if isinstance(inputs, Mapping) else np.asarray(inputs)))
    features = None
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
        if joined := model.joined(feed):
            features = [one if size == 1 else f"{one} {place}"
                        for one, size in zip(joined.shapes, joined.sizes, strict=True)
                        for place in range(size)]  # fmt: skip
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
    truth = _background(background, pictures)
    return model, Examples(pictures, {}, targets, truth, tuple(names or ()), None, name if feed else "", feed), features


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


def _has_tokens(examples: Examples) -> bool:
    """Return whether positions are whole numbers, whose maps are those of what the network reads of them."""
    return examples.inputs.dtype.kind in "iu" and examples.inputs.ndim == 2


def _references(loaded: Any, examples: Examples, seed: int) -> tuple[list[Control], list[str]]:
    """Return the references of a method, and notes on those that a model, as it was loaded, does not allow."""
    controls, notes = [UNIFORM, RANDOM], []
    if not _has_tokens(examples):  # the number of a word says nothing of it
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


def _given(count: int, seed: int) -> Examples:
    """Stand for the inputs, which are given."""
    raise AssertionError("the inputs are given")


def own_under_controls(method: str, values: Mapping[MapSource, np.ndarray]) -> dict[str, np.ndarray]:
    """Return condition -> (N,) agreement of a method's own maps under it, the mean over random networks."""
    under: dict[str, list[np.ndarray]] = {}
    for source, found in values.items():
        if source.method == method and source.control:
            under.setdefault(source.kind.control, []).append(found)
    return {condition: np.mean(each, axis=0) for condition, each in under.items()}


def _chosen(methods: Any, absent: np.ndarray | None) -> dict[str, MethodLike]:
    """Return methods; those of a name that have a baseline start from the values of absent features, (1, features)."""
    if methods is None:
        methods = [name for name, method in METHODS.items() if not method.library and method.family != "random"]
    chosen = named(methods)
    for name, method in chosen.items() if absent is not None else ():
        known = attribution.resolve_method(method) if isinstance(method, str) else None
        for parameter in [each for each in ARRAYS if known and each in known.defaults][:1]:
            function = functools.partial(known.function, **{parameter: absent})
            chosen[name] = dataclasses.replace(known, function=function)
    return chosen


def _tried(method: MethodLike, model: Any, first: Examples) -> Trial:
    """Return whether a method applies to the first input, and its passes: counted, or estimated where they are many."""
    name = first.explained or None
    trial = try_method(method, model, model.feed(first.feed), name)
    if not trial.applies or trial.passes > _CHEAP:
        return trial
    before = model.counts["forward"] + model.counts["backward"]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MissedSum)
            attribution.explain(method, model, first.feed, explain_input=name)
    except BadInput as error:
        return Trial(False, str(error))
    return dataclasses.replace(trial, passes=model.counts["forward"] + model.counts["backward"] - before)
