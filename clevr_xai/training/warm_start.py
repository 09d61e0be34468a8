"""Networks that start from others: Net2Net from a smaller network, or training resumed from an exported one.

Chen, Goodfellow and Shlens, "Net2Net: Accelerating learning via knowledge transfer", ICLR 2016.

An exported network learns further wordings of the questions without images. The network is its own teacher: what the
first layer of g receives for a question in the known wording is what it has to receive for the same question in another
(Romero et al., "FitNets: Hints for thin deep nets", ICLR 2015). Nothing behind that layer changes.
"""

from __future__ import annotations

import functools
import json
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import keras
import numpy as np
from keras import layers

from attribution.errors import BadInput
from attribution_benchmarks.beam.workers import available_cores, processes
from attribution_benchmarks.core.fingerprint import code_fingerprint
from clevr_xai import relation_network, vocabulary
from clevr_xai.answering import variable_name
from clevr_xai.generation import families, questions, scenes
from clevr_xai.training.batches import Batch
from clevr_xai.training.learner import PAIR_SCALE, by_length, encode
from clevr_xai.training.training_set import MAX_WORDS, cached_arrays
from clevr_xai.vocabulary import QUESTION_WORDS


def net2net(network: keras.Model, widths=relation_network.WIDTHS, dropout: float = 0.5) -> keras.Model:
    """Return a network with wider, and perhaps more, layers in g that computes the same function.

    New units take inputs from the old ones and from each other as in a new network, and give nothing to the old ones.
    New layers pass the old units on, which is exact behind a ReLU. No layer may become narrower (``ValueError``).
    """
    old = network.get_layer("relations")
    if len(widths) < len(old.widths) or min(np.subtract(widths[: len(old.widths)], old.widths)) < 0:
        raise ValueError(f"g of widths {old.widths} cannot grow to {tuple(widths)}")
    f_widths = [layer.units for layer in network.get_layer("f").layers if isinstance(layer, layers.Dense)]
    channels = network.get_layer("convolutions").layers[0].filters
    size = network.inputs[0].shape[1]
    large = relation_network.build(widths, f_widths[:-1], channels, size, old.pair_scale, dropout)
    for name in ("convolutions", "question_encoder"):
        large.get_layer(name).set_weights(network.get_layer(name).get_weights())
    new = large.get_layer("relations")
    for new_part, old_part in zip(new.parts, old.parts, strict=True):
        new_part.set_weights(list(map(_enlarged, new_part.get_weights(), old_part.get_weights())))
    width = old.widths[0]
    for number, layer in enumerate(new.deeper):
        kernel, bias = layer.get_weights()
        if number < len(old.deeper):
            small_kernel, small_bias = old.deeper[number].get_weights()
        else:
            small_kernel, small_bias = np.eye(width, dtype=np.float32), np.zeros(width, np.float32)
        kernel[:, : small_kernel.shape[1]] = 0
        layer.set_weights([_enlarged(kernel, small_kernel), _enlarged(bias, small_bias)])
        width = small_kernel.shape[1]
    weights = large.get_layer("f").get_weights()
    weights[0][:] = 0
    large.get_layer("f").set_weights(list(map(_enlarged, weights, network.get_layer("f").get_weights())))
    return large


def _enlarged(large: np.ndarray, small: np.ndarray) -> np.ndarray:
    """Return the large array with the small one in its first corner."""
    large = large.copy()
    large[tuple(slice(size) for size in small.shape)] = small
    return large


def load_exported(directory: str | pathlib.Path) -> keras.Model:
    """Return the network of a SavedModel in its trainable form, the inverse of ``relation_network.fold_pair_scale``.

    ``directory`` is the base path with a version 1, as ``relation_network.export`` writes it; ``BadInput`` if that is
    not a Relation Network of the paper's size.
    """
    from attribution.model import saved_model

    network = relation_network.build(pair_scale=PAIR_SCALE, dropout=0.0)
    try:
        loaded = saved_model.load(pathlib.Path(directory) / "1")
        values = {
            variable_name(variable.name.split(":")[0]): variable.numpy()
            for variable in loaded.signatures["serving_default"].variables
        }
        network.set_weights([values[variable_name(weight.path)] for weight in network.weights])
    except (BadInput, KeyError, ValueError) as error:
        reason = f": {error}" if isinstance(error, BadInput) else ""
        raise BadInput(
            f"{str(directory)!r} holds no network that scripts/train_relation_network.py exported{reason}"
        ) from None
    first = network.get_layer("f").layers[0]
    first.kernel.assign(first.kernel / PAIR_SCALE)
    return network


class _Sentences(NamedTuple):
    """The same questions in several wordings: (wordings, Q, 48) uint8, and the (Q,) files of their families."""

    tokens: np.ndarray
    files: np.ndarray


def sample_sentences(wordings: Sequence[str], seed: int, blocks: Sequence[int], rounds: int) -> _Sentences:
    """Ask rounds of questions of each kind about blocks of 250 scenes, sampled but not rendered, in every wording."""
    import tqdm

    ask = functools.partial(_sentences_of_block, wordings, seed, rounds)
    with processes(available_cores() if len(blocks) > 1 else 1) as mapped:
        parts = list(tqdm.tqdm(mapped(ask, blocks, 1), "sentences", len(blocks), mininterval=1.0, leave=False))
    words, files = zip(*parts, strict=True)
    return _Sentences(np.concatenate(words, axis=1), np.concatenate(files))


def cached_sentences(file: pathlib.Path, *arguments) -> _Sentences:
    """Return ``sample_sentences`` of the arguments from ``file`` if it holds exactly that, otherwise write it."""
    code = code_fingerprint("clevr_xai.training.warm_start:sample_sentences", files=[families.FOLDER])
    described = json.dumps([*map(list, arguments[:1]), *map(str, arguments[1:]), code])
    return _Sentences(**cached_arrays(file, described, lambda: sample_sentences(*arguments)._asdict()))


def _sentences_of_block(wordings: Sequence[str], seed: int, rounds: int, block: int) -> _Sentences:
    first = block * questions.BLOCK
    found = [scenes.sample_scene(seed, index) for index in range(first, first + questions.BLOCK)]
    sentences: list[list[str]] = [[] for _ in wordings]
    files: list[str] = []
    for again in range(rounds):
        for kind in ("simple", "complex"):
            for place, wording in enumerate(wordings):
                asked = questions.generate_block(found, kind, seed + 1000 * again, wording)
                sentences[place] += [question["question"] for question in asked]
            files += [question["template_filename"].removesuffix(".json") for question in asked]
    words = [vocabulary.encode(of_wording, QUESTION_WORDS, MAX_WORDS) for of_wording in sentences]
    return _Sentences(np.array(words, np.uint8), np.array(files))


def _encode_questions(network: keras.Model, words: np.ndarray) -> np.ndarray:
    """Return the questions' input to the first layer of g, (N, 256) float32, from their tokens, (N, L) int."""
    kernel, bias = network.get_layer("relations").parts[2].get_weights()
    return encode(network.get_layer("question_encoder"), words) @ kernel + bias


class Rewording:
    """Batches of sentences in all wordings, and what the first layer of g has to receive for them.

    ``network`` reads the first wording. A batch has ``num_questions``, all of about the same length.

    Attributes
    ----------
    wanted : (Q, 256) float32
        What the layer receives for the first wording.
    scale
        Root mean square of its deviation from its mean; a loss of 1 is that of a constant.
    """

    def __init__(self, network: keras.Model, sentences: _Sentences, num_questions: int):
        self.sentences, self.num_questions = sentences, num_questions
        self.wanted = _encode_questions(network, sentences.tokens[0])
        self.scale = float(np.sqrt(self.wanted.var(axis=0).mean()))
        self._words = sentences.tokens.reshape(-1, sentences.tokens.shape[-1])
        self._rows = by_length(self._words)
        self._shares = np.array([len(rows) for rows in self._rows.values()]) / len(self._words)

    def batch(self, rng: np.random.Generator) -> Batch:
        """Sample ``question`` (num_questions, L) int32 and ``given`` (num_questions, 256) float32."""
        length = int(rng.choice(list(self._rows), p=self._shares))
        rows = rng.choice(self._rows[length], self.num_questions)
        words = self._words[rows, :length].astype(np.int32)
        return {"question": words}, {"given": self.wanted[rows % len(self.wanted)] / self.scale}

    def unexplained(self, network: keras.Model) -> dict:
        """Return the mean squared error over the variance, by wording, and of the last by file of families."""
        files = self.sentences.files
        errors = [
            np.square(_encode_questions(network, words) - self.wanted).mean(axis=1) / self.scale**2
            for words in self.sentences.tokens
        ]
        found: dict = {f"wording {place}": round(float(values.mean()), 4) for place, values in enumerate(errors)}
        names = np.unique(files)
        return found | {"families": {str(name): round(float(errors[-1][files == name].mean()), 4) for name in names}}


def encode_cells(network: keras.Model, images: np.ndarray) -> np.ndarray:
    """Return each cell's input to the first layer of g, as a pair's first and as its second.

    ``images`` are (N, 128, 128, 3) uint8, the result is (N x 49, 512) float64.
    """
    first, second, _ = network.get_layer("relations").parts
    kernels = np.concatenate([part.get_weights()[0] for part in (first, second)], axis=1)
    return _cells(network, images) @ kernels


def refit_cells(network: keras.Model, images: np.ndarray, wanted: np.ndarray) -> float:
    """Fit the first layer of g by least squares to convolutions that were trained further.

    Both kernels of cells are replaced; the fitted constant is added to the question's bias. ``images`` are some
    hundred, (N, 128, 128, 3) uint8, ``wanted`` their ``encode_cells`` before the training. Return the share of the
    variance of ``wanted`` that the layer explains.
    """
    cells = _cells(network, images)
    inputs = np.concatenate([cells, np.ones((len(cells), 1))], axis=1)
    fitted = np.linalg.lstsq(inputs, wanted, rcond=None)[0]
    kernel, constant = fitted[:-1], fitted[-1]
    first, second, question = network.get_layer("relations").parts
    for part, columns in zip((first, second), np.split(kernel, 2, axis=1), strict=True):
        part.set_weights([columns])
    of_question, bias = question.get_weights()
    question.set_weights([of_question, bias + sum(np.split(constant, 2))])
    return 1 - float(np.square(wanted - inputs @ fitted).sum() / np.square(wanted - wanted.mean(axis=0)).sum())


def _cells(network: keras.Model, images: np.ndarray, batch_size: int = 100) -> np.ndarray:
    """Return the features of each cell with its coordinates, (N x 49, 26) float64."""
    found = []
    for start in range(0, len(images), batch_size):
        features = network.get_layer("convolutions")(images[start : start + batch_size].astype(np.float32) / 255)
        found.append(keras.ops.convert_to_numpy(network.get_layer("coordinates")(features)))
    return np.concatenate(found).reshape(-1, found[0].shape[-1]).astype(np.float64)
