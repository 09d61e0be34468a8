"""Rules in a part of the Relation Network, held to a backward pass by hand; elsewhere the gradient is the true one."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from attribution import explain, load_model
from attribution.errors import BadInput
from attribution.methods.modified_relu import deconvnet_rules, guided_rules
from clevr_xai import methods, relation_network
from research.clevr_xai import candidates

RULES = {
    "guided_backprop": lambda gradient, z: np.maximum(gradient, 0) * (z > 0),
    "deconvnet": lambda gradient, z: np.maximum(gradient, 0),
    "gradient": lambda gradient, z: gradient * (z > 0),
}


@pytest.fixture(scope="module")
def network():
    keras.utils.set_random_seed(3)
    made = relation_network.build((16,) * 4, (16, 12), channels=6, image_size=64)
    generator = np.random.default_rng(4)
    for variable in made.variables:
        values = generator.normal(0, 0.3, variable.shape)
        variable.assign(np.abs(values) + 0.5 if "variance" in variable.path or "gamma" in variable.path else values)
    return made


@pytest.fixture(scope="module")
def model(network, tmp_path_factory):
    path = tmp_path_factory.mktemp("candidates")
    relation_network.export(network, path)
    return load_model(path)


@pytest.fixture(scope="module")
def asked():
    generator = np.random.default_rng(0)
    return {
        "image": generator.random((3, 64, 64, 3), dtype=np.float32),
        "question": generator.integers(2, 20, (3, 7)).astype(np.int32),
    }


def by_hand(network, asked, target, in_convolutions, in_f):
    """Return the gradient (N, 64, 64, 3) of a logit, back through f, g and the convolutions one after the other."""
    convolutions, f = network.get_layer("convolutions"), network.get_layer("f")
    values, before = asked["image"], []
    for number in range(1, 5):
        convolution = convolutions.get_layer(f"conv{number}")
        z = tf.nn.conv2d(values, convolution.kernel, 2, "VALID") + convolution.bias
        before.append((values.shape, z.numpy()))
        values = convolutions.get_layer(f"norm{number}")(tf.nn.relu(z), training=False)
    features = tf.constant(values)
    with tf.GradientTape() as tape:
        tape.watch(features)
        question = network.get_layer("question_encoder")(asked["question"])
        related = network.get_layer("relations")(network.get_layer("coordinates")(features), question)
    hidden = [f.get_layer(name) for name in ("f1", "f2")]
    first = related @ hidden[0].kernel + hidden[0].bias
    second = tf.nn.relu(first) @ hidden[1].kernel + hidden[1].bias
    back = np.tile(np.asarray(f.get_layer("logits").kernel)[:, target], (len(features), 1))
    for layer, z in ((hidden[1], second), (hidden[0], first)):
        back = in_f(back, z.numpy()) @ np.asarray(layer.kernel).T
    back = tape.gradient(related, features, output_gradients=tf.constant(back, tf.float32)).numpy()
    for number in range(4, 0, -1):
        norm, (shape, z) = convolutions.get_layer(f"norm{number}"), before[number - 1]
        back = back * np.asarray(norm.gamma) / np.sqrt(np.asarray(norm.moving_variance) + norm.epsilon)
        kernel = convolutions.get_layer(f"conv{number}").kernel
        back = tf.nn.conv2d_transpose(in_convolutions(back, z), kernel, shape, 2, "VALID").numpy()
    return back


def is_close(maps, wanted):
    return np.abs(maps - wanted).max() < 2e-5 * np.abs(wanted).max()


def maps_of(method, model, asked, target=5):
    return explain(method, model, asked, target, explain_input="image")


@pytest.mark.parametrize("rule", ["guided_backprop", "deconvnet"])
@pytest.mark.parametrize("place", ["in_convolutions", "outside_g"])
def test_a_part_follows_the_rule_and_the_others_the_gradient(rule, place, network, model, asked):
    in_f = RULES[rule if place == "outside_g" else "gradient"]
    wanted = by_hand(network, asked, 5, RULES[rule], in_f)
    assert is_close(maps_of(f"research.clevr_xai.candidates:{rule}_{place}", model, asked), wanted)
    assert not is_close(maps_of("gradient", model, asked), wanted)
    assert not is_close(maps_of(rule, model, asked), wanted)


@pytest.mark.parametrize(("name", "rules"), [("guided_backprop", guided_rules), ("deconvnet", deconvnet_rules)])
def test_all_parts_together_are_the_method(name, rules, model, asked):
    everywhere = candidates.within(rules, candidates.PARTS)
    maps = maps_of(lambda passes: passes.input_gradient(everywhere), model, asked)
    np.testing.assert_array_equal(maps, maps_of(name, model, asked))


def test_deconvnet_everywhere_sees_nothing_of_the_image_and_its_candidates_do(model, asked):
    first, *others = maps_of("deconvnet", model, asked)
    assert all(is_close(other, first) for other in others)
    for name in ("deconvnet_in_convolutions", "deconvnet_outside_g"):
        first, *others = maps_of(f"research.clevr_xai.candidates:{name}", model, asked)
        assert not any(is_close(other, first) for other in others)


def test_a_network_without_these_parts_is_refused(tmp_path):
    layers = keras.layers.Conv2D(4, 3, activation="relu"), keras.layers.Flatten(), keras.layers.Dense(2)
    keras.Sequential([keras.Input((8, 8, 3)), *layers]).export(tmp_path, verbose=False)
    with pytest.raises(BadInput, match="takes a Relation Network"):
        explain(candidates.deconvnet_outside_g, load_model(tmp_path), np.ones((1, 8, 8, 3), np.float32), 0)


def test_guided_grad_cam_takes_the_candidate_for_its_factor_and_tables_name_functions(model, asked):
    maps = maps_of("research.clevr_xai.candidates:guided_grad_cam_in_convolutions", model, asked)
    factor = maps_of("research.clevr_xai.candidates:guided_backprop_in_convolutions", model, asked)
    np.testing.assert_allclose(maps, maps_of("grad_cam", model, asked)[..., np.newaxis] * factor, rtol=1e-5, atol=1e-9)
    assert maps.any()
    name = "research.clevr_xai.candidates:deconvnet_outside_g"
    assert list(methods.settings([name])) == [name] and methods.title(name) == "deconvnet_outside_g"
