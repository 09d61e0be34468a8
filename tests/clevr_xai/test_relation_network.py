import keras
import numpy as np

import attribution
from clevr_xai import relation_network, vocabulary
from clevr_xai.vocabulary import ANSWERS, QUESTION_WORDS

SMALL = {"widths": (8, 6), "head_widths": (7, 5), "channels": 4, "image_size": 64}


def randomised(**settings):
    """Return a network whose biases and normalizations are not what they start from."""
    network = relation_network.build(**settings)
    rng = np.random.default_rng(0)
    network.set_weights([value + 0.1 * rng.random(value.shape).astype(value.dtype) for value in network.get_weights()])
    return network


def inputs(size=64, number=3):
    rng = np.random.default_rng(1)
    return rng.random((number, size, size, 3), np.float32), rng.integers(2, 82, (number, 7)).astype(np.int32)


def test_the_papers_network_has_484548_trainable_parameters():
    network = relation_network.build()
    assert sum(int(np.prod(variable.shape)) for variable in network.trainable_variables) == 484_548
    assert network.output_shape == (None, len(ANSWERS))
    assert network.get_layer("coordinates").output.shape == (None, 49, 26)


def test_the_factorised_g_equals_g_on_every_pair_in_turn():
    layer = relation_network.Relations((5, 4), pair_scale=0.5)
    rng = np.random.default_rng(2)
    cells, question = rng.normal(size=(2, 6, 3)).astype(np.float32), rng.normal(size=(2, 4)).astype(np.float32)
    found = keras.ops.convert_to_numpy(layer(cells, question))
    first, second, (asked, bias) = (part.get_weights() for part in layer.parts)
    kernel = np.concatenate([first[0], second[0], asked])
    deeper, deeper_bias = layer.deeper[0].get_weights()
    for row in range(2):
        total = np.zeros(4)
        for one in cells[row]:
            for other in cells[row]:
                hidden = np.maximum(np.concatenate([one, other, question[row]]) @ kernel + bias, 0)
                total += np.maximum(hidden @ deeper + deeper_bias, 0)
        np.testing.assert_allclose(found[row], 0.5 * total, rtol=1e-4, atol=1e-5)


def test_cells_know_their_place():
    located = relation_network.Coordinates()(np.zeros((1, 7, 7, 2), np.float32))
    places = np.asarray(located)[0, :, 2:]
    assert places[0].tolist() == [-1.5, -1.5]
    assert places[6].tolist() == [1.5, -1.5]  # last column of the first row
    assert places[24].tolist() == [0, 0]


def test_an_lstm_with_two_biases_is_keras_lstm_with_their_sum():
    encoder = relation_network.question_encoder(10, 4, 3)
    rng = np.random.default_rng(4)
    encoder.set_weights([rng.normal(size=value.shape) for value in encoder.get_weights()])
    embedding, kernel, bias, recurrent, second_bias = encoder.get_weights()
    lstm = keras.layers.LSTM(3, unit_forget_bias=False)
    lstm.build((None, None, 4))
    forget = np.repeat([0.0, 1.0, 0.0, 0.0], 3)
    lstm.set_weights([kernel, recurrent, bias + second_bias + forget])
    question = np.array([[3, 4, 11, 2]], np.int32)
    np.testing.assert_allclose(encoder(question), lstm(embedding[question]), rtol=1e-5, atol=1e-6)


def test_padding_changes_nothing_wherever_it_stands():
    network = randomised(**SMALL)
    image, question = inputs()
    plain = np.asarray(network([image, question]))
    padding = np.zeros((3, 4), np.int32)
    for padded in ([question, padding], [padding, question], [question[:, :3], padding, question[:, 3:]]):
        np.testing.assert_allclose(network([image, np.concatenate(padded, axis=1)]), plain, rtol=1e-5, atol=1e-5)
    assert np.abs(np.asarray(network([image, question[:, ::-1]])) - plain).max() > 1e-3


def test_folding_the_scale_into_f_changes_nothing():
    network = randomised(**SMALL, pair_scale=0.02)
    plain = relation_network.fold_pair_scale(network)
    assert plain.get_layer("relations").pair_scale == 1.0
    np.testing.assert_allclose(plain(list(inputs())), network(list(inputs())), rtol=1e-4, atol=1e-5)


def test_the_saved_model_gives_the_same_logits_and_carries_its_lists(tmp_path):
    network = randomised(**SMALL)
    relation_network.export(network, tmp_path / "network", "# A card\n")
    model = attribution.load_model(str(tmp_path / "network"), score="logits")
    image, question = inputs()
    found = model.scores({"image": image, "question": question})
    np.testing.assert_allclose(found, network([image, question]), rtol=1e-5, atol=1e-5)
    assert vocabulary.read_assets(tmp_path / "network") == (list(QUESTION_WORDS), list(ANSWERS))
    assert sorted(path.name for path in (tmp_path / "network").iterdir()) == ["1", "MODEL_CARD.md"]
