"""What queries hand out stays as it is: methods that are explained together share it."""

import numpy as np
import pytest

import attribution
from attribution.errors import BadInput


def every_array(queries):
    """Yield the arrays that the queries of a batch hand out, by name."""
    yield "inputs", queries.inputs
    yield "targets", queries.targets
    yield "scores", queries.scores
    yield from queries.feed.items()
    yield "input_gradient", queries.input_gradient()
    yield "modified gradient", queries.input_gradient(no_rules)
    yield from zip(("values", "gradients"), queries.layer_gradient(), strict=True)
    ((values, gradients),) = queries.node_gradients([queries.model.layer(None)])
    yield from (("node values", values), ("node gradients", gradients))
    rest, _ = queries.at_layer()
    yield from (("inputs at a layer", rest.inputs), ("targets at a layer", rest.targets))
    yield "targets of logits", queries.of_logits().targets


def no_rules(graph, source, target):
    return {}


def assignment(array):
    array[...] = 0


def forced_flag(array):
    array.flags.writeable = True
    array[...] = 0


def forced_flag_of_a_view(array):
    array.reshape(-1).setflags(write=True)


def base(array):
    while array.base is not None:
        array = array.base
    array[...] = 0


def in_place(array):
    np.multiply(array, 0, out=array)


WRITES = [assignment, forced_flag, forced_flag_of_a_view, base, in_place]


@pytest.mark.parametrize("write", WRITES)
def test_no_array_can_be_written_to(write, by_score, inputs):
    refused, names = [], []

    def writing(queries):
        for name, array in every_array(queries):
            names.append(name)
            try:
                write(array)
            except (ValueError, TypeError, AttributeError):  # of arrays, of buffers
                refused.append(name)
        return queries.input_gradient()

    x = inputs["image"].copy()
    attribution.explain(writing, by_score["probabilities", "image"], x, 2)
    assert refused == names and len(names) > 10
    np.testing.assert_array_equal(x, inputs["image"])


def test_fresh_copies_may_be_written_to(models, inputs):
    def careful(queries):
        for array in (queries.target_scores, queries.multipliers(np.zeros(())), queries.given(1.0)):
            array[...] = 0
        for _, rows, gradients in queries.variant_gradients(1, lambda number, rows: queries.inputs[rows]):
            rows[...], gradients[...] = 0, 0
        return queries.input_gradient()

    maps = attribution.explain_many([careful, "gradient", "deeplift"], models["image"], inputs["image"], 1)
    np.testing.assert_array_equal(maps["careful"], maps["gradient"])
    np.testing.assert_array_equal(
        maps["deeplift"], attribution.explain("deeplift", models["image"], inputs["image"], 1)
    )


@pytest.mark.parametrize("targets", [None, 0])
def test_a_method_that_writes_to_targets_is_refused_by_name(targets, models, inputs):
    def careless(queries):
        queries.targets[:] = 3
        return queries.input_gradient()

    with pytest.raises(BadInput, match=r"'careless' failed at .*read-only; all methods share the inputs: copy"):
        attribution.explain_many([careless, "gradient"], models["image"], inputs["image"], targets)


def test_parameters_and_keys_cannot_be_written_to(models, inputs):
    start = np.full(inputs["image"].shape[1:], 0.5, np.float32)

    def writes_to_its_parameter(queries, baseline=0.0):
        baseline[:] = 0
        return queries.input_gradient()

    def writes_to_keys(queries):
        queries.keys[0] = "another"
        return queries.input_gradient()

    for method, options in (
        (writes_to_its_parameter, {"baseline": start}),
        (writes_to_keys, {"keys": list("abcdefg")}),
    ):
        with pytest.raises(BadInput, match=f"'{method.__name__}' failed at"):
            attribution.explain(method, models["image"], inputs["image"], 0, **options)
    assert (start == 0.5).all()


def scaled(queries):
    queries.inputs = queries.inputs / 255
    queries.seed = 5
    return queries.input_gradient()


def remembers(queries):
    return queries.shared("scores", lambda: np.full_like(queries.scores, 8.0))[:, :1, None] * queries.inputs


@pytest.mark.parametrize("method", [scaled, remembers])
def test_what_a_method_sets_is_its_own(method, models, inputs):
    """Attributes of its queries, and what it caches under a name of its choice."""
    others = ["integrated_gradients", "occlusion", "smoothgrad"]
    alone = attribution.explain_many(others, models["signal"], inputs["signal"], 1)
    together = attribution.explain_many([method, *others], models["signal"], inputs["signal"], 1)
    for name in others:
        np.testing.assert_array_equal(together[name], alone[name])
