r"""Train the Relation Network on PyTorch, in bfloat16, for processors that multiply it (AVX512-BF16, AMX).

    G="python scripts/generate_clevr_xai.py --image_size=192x128 --stored_size=128 --noground_truth_files"
    $G --num_images=9500 --seed=1 --samples=4 --output_dir=data/clevr_xai_training
    $G --num_images=1000 --seed=3 --samples=9 --output_dir=data/clevr_xai_test
    python research/clevr_xai/train_on_pytorch.py --directory=data/on_pytorch --export=NEW

Needs PyTorch, too. A stopped run resumes; ``--start_from`` trains an exported network further. Data, losses, pairs and
curriculum are those of ``scripts/train_relation_network.py``, with three differences that save time:

- The convolutions are trained first and then stay as they are. Their features of eight augmented variants of every
  image are computed once, so that the stages that answer questions compute g and f alone.
- The number of pairs that a step sums depends on the number of objects of its images, because all pairs of objects'
  centers are included: 64 up to six objects, 96 up to eight, 132 up to ten.
- Kernels behind the first layer of g are trained by Muon, too.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import pathlib
import shlex
import sys
import time
from collections.abc import Callable
from concurrent import futures

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from clevr_xai import relation_network
from clevr_xai.training import batches, model_card, stages, training_set, warm_start
from clevr_xai.training.batches import CENTRE, OPERANDS, SLOT_SIZES, SLOTS
from clevr_xai.training.training_set import MAX_NODES, MAX_OBJECTS, NODES, TrainingSet
from clevr_xai.vocabulary import ANSWERS, ATTRIBUTES, FIRST_WORD, QUESTION_WORDS

ATTRIBUTE_SIZES = [len(values) for values in ATTRIBUTES.values()]
WORDINGS = ("plain", "official")
ROUNDS = {"simple": 2, "complex": 2}
PAIR_SCALE = 0.01  # of the sum over pairs, in training
SMALL, FULL = (128,) * 3, (256,) * 4  # widths of g
STEPS = {"reading": 19_000, "seeing": 24_000, "small": 3_000, "final": 8_000}
RATES = {"reading": 2e-3, "seeing": 2e-3, "small": 2e-3, "final": 1e-3}
CONSTANT = {"reading": 0.6, "seeing": 0.6, "small": 1.0, "final": 0.35}  # share of the steps before the rate falls
READ, SEEN, ANSWERED, ABOUT = 128, 32, 32, 4  # questions, images, images, questions about each image in a step
A_STEP = {"reading": f"{READ} questions", "seeing": f"{SEEN} images"}
A_STEP |= dict.fromkeys(("small", "final"), f"{ANSWERED} images, {ABOUT} questions about each")
VARIANTS = 8  # augmented ones of each image
GROUPS = ((0, 6, 64), (7, 8, 96), (9, MAX_OBJECTS, 132))  # least and most objects, pairs
SAVE_STEPS = 2_000


class Reader(nn.Module):
    """The question encoder with its two auxiliary heads."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(len(QUESTION_WORDS) + FIRST_WORD, 32)
        self.lstm = nn.LSTM(32, 128, batch_first=True)
        self.program = nn.Linear(128, MAX_NODES * len(NODES))
        self.phrases = nn.Linear(128, SLOTS * sum(SLOT_SIZES))
        nn.init.orthogonal_(self.lstm.weight_hh_l0)
        for weight in (self.lstm.weight_ih_l0, self.program.weight, self.phrases.weight):
            nn.init.xavier_uniform_(weight)
        for bias in (self.lstm.bias_ih_l0, self.lstm.bias_hh_l0, self.program.bias, self.phrases.bias):
            nn.init.zeros_(bias)
        nn.init.ones_(self.lstm.bias_ih_l0[128:256].detach())  # of the gate that keeps the memory

    def forward(self, words):
        """Return the code of each question, (N, 128), from its words, (N, L)."""
        outputs, _ = self.lstm(self.embedding(words))
        return outputs[torch.arange(len(words)), (words > 0).sum(1) - 1]

    def loss(self, inputs, targets):
        """Return the mean loss of the nodes of the programs and of the slots of the phrases of a ``reading_batch``."""
        code = self(_long(inputs["question"]))
        total = F.cross_entropy(self.program(code).view(-1, len(NODES)), _long(targets["program"]).flatten())
        parts = self.phrases(code).view(-1, sum(SLOT_SIZES)).split(list(SLOT_SIZES), 1)
        for entry, part in enumerate(parts):
            total = total + F.cross_entropy(part, _long(targets["phrases"][..., entry]).flatten())
        return 4 * total


class Eyes(nn.Module):
    """The convolutions with the head that says which object a cell shows."""

    def __init__(self):
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv2d(3 if first else 24, 24, 3, 2) for first in (True, *[False] * 3))
        self.norms = nn.ModuleList(nn.BatchNorm2d(24, eps=1e-3, momentum=0.01) for _ in range(4))
        self.head = nn.Linear(24, 1 + sum(ATTRIBUTE_SIZES))
        for layer in self.convolutions:
            _he_normal(layer.weight, layer.in_channels * 9)
            nn.init.zeros_(layer.bias)
        nn.init.xavier_uniform_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, images):
        """Return the features of cells, (N, 49, 24), from images, (N, 3, 128, 128) in [0, 1]."""
        for layer, norm in zip(self.convolutions, self.norms, strict=True):
            images = norm(F.relu(layer(images)))
        return images.flatten(2).transpose(1, 2)

    def logits(self, images):
        """Return the head's logits, (N, 49, 16)."""
        return self.head(self(images))


class _Layer(torch.autograd.Function):
    """relu(x @ kernel + bias) in the precision of x; only x and the result are stored."""

    @staticmethod
    def forward(context, x, kernel, bias):
        rounded = kernel.to(x.dtype)
        result = torch.addmm(bias.to(x.dtype), x, rounded).relu_()
        context.save_for_backward(x, rounded, result)
        return result

    @staticmethod
    def backward(context, gradient):
        x, kernel, result = context.saved_tensors
        gradient = torch.ops.aten.threshold_backward(gradient, result, 0)
        of_bias = gradient.new_ones(1, len(gradient)) @ gradient  # several times as fast as a sum
        return gradient @ kernel.t(), (x.t() @ gradient).float(), of_bias[0].float()


class Relations(nn.Module):
    """g and f with the auxiliary heads of ``clevr_xai.training.learner``."""

    def __init__(self, widths):
        super().__init__()
        deviation = math.sqrt(2 / (2 * 26 + 128))
        first, last = widths[0], widths[-1]
        self.cells = nn.Parameter(torch.randn(2, 26, first) * deviation)  # as a pair's first and second
        self.question = nn.Linear(128, first)
        nn.init.normal_(self.question.weight, std=deviation)
        self.kernels = nn.ParameterList(
            _he_normal(torch.empty(inputs, outputs), inputs) for inputs, outputs in itertools.pairwise(widths)
        )
        self.biases = nn.ParameterList(torch.zeros(width) for width in widths[1:])
        self.f = nn.ModuleList([nn.Linear(last, 256), nn.Linear(256, 256), nn.Linear(256, len(ANSWERS))])
        self.follow, self.compare = nn.Linear(last, MAX_NODES), nn.Linear(last, 3)
        self.operands = nn.Linear(last, OPERANDS * len(ANSWERS))
        for layer in self.f[:2]:
            _he_normal(layer.weight, layer.in_features)
        _he_normal(self.f[2].weight, 100 * 256)
        for layer in (self.follow, self.compare, self.operands):
            nn.init.xavier_uniform_(layer.weight)
        for layer in (self.question, *self.f, self.follow, self.compare, self.operands):
            nn.init.zeros_(layer.bias)

    def forward(self, features, code, pairs, weights, rows=None):
        """Return the logits of answers, (B, Q, 28), and, with ``rows``, those of the auxiliary heads.

        ``features`` are (B, 49, 26), with coordinates; the other arguments are those of ``batches.answering_batch``.
        """
        (number, width), questions = pairs.shape[:2], code.shape[1]
        chosen = torch.cat([F.one_hot(pairs[..., place], 49) for place in (0, 1)], -1).bfloat16()
        of_cells = torch.bmm(chosen, torch.cat([features @ kernel for kernel in self.cells], 1).bfloat16())
        values = F.relu(of_cells[:, None] + self.question(code).bfloat16()[:, :, None]).flatten(0, 2)
        for kernel, bias in zip(self.kernels, self.biases, strict=True):
            values = _Layer.apply(values, kernel, bias)
        values = values.view(number, questions, width, -1)
        summed = weights[:, None] * PAIR_SCALE if rows is None else torch.cat([weights[:, None] * PAIR_SCALE, rows], 1)
        sums = torch.matmul(summed.bfloat16()[:, None], values).float()
        hidden = sums[:, :, 0]
        for layer in self.f[:2]:
            hidden = F.relu(layer(hidden))
        answers = self.f[2](hidden)
        if rows is None:
            return answers
        compared = (values @ self.compare.weight.t().bfloat16()).float() + self.compare.bias
        operands = self.operands(sums[:, :, 0]).view(number, questions, OPERANDS, -1)
        return {"answer": answers, "members": self.follow(sums[:, :, 1:]), "compared": compared, "operands": operands}

    @torch.no_grad()
    def grow(self, small: Relations) -> None:
        """Take over a smaller network's function, as ``warm_start.net2net`` does."""
        self.cells[:, :, : small.cells.shape[2]] = small.cells
        width = small.question.out_features
        self.question.weight[:width], self.question.bias[:width] = small.question.weight, small.question.bias
        for place, (kernel, bias) in enumerate(zip(self.kernels, self.biases, strict=True)):
            old = small.kernels[place] if place < len(small.kernels) else torch.eye(width)
            kernel[:, : old.shape[1]] = 0
            kernel[: old.shape[0], : old.shape[1]] = old
            if place < len(small.biases):
                bias[: old.shape[1]] = small.biases[place]
            width = old.shape[1]
        for name in ("follow", "compare", "operands"):
            _enlarge(getattr(self, name), getattr(small, name))
        for new, old in zip(self.f, small.f, strict=True):
            _enlarge(new, old)


def _enlarge(new: nn.Linear, old: nn.Linear) -> None:
    new.weight.zero_()
    new.weight[:, : old.in_features], new.bias[:] = old.weight, old.bias


def _he_normal(weight: torch.Tensor, inputs: int) -> torch.Tensor:
    """Fill with a normal distribution cut off at two deviations, whose variance is 2 over the inputs."""
    with torch.no_grad():
        return nn.init.trunc_normal_(weight, 0, 1, -2, 2).mul_(math.sqrt(2 / inputs) / 0.8796)


class _Optimizer:
    """Adam, and Muon for the kernels in ``muon``: kernel -> root mean square of its step over the rate."""

    def __init__(self, parameters, muon):
        self.parameters, self.muon = list(parameters), muon
        self.momentum = {kernel: torch.zeros_like(kernel) for kernel in muon}
        self.adam = torch.optim.Adam([each for each in self.parameters if each not in muon], eps=1e-7)

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Take a step."""
        nn.utils.clip_grad_norm_(self.parameters, 5.0)
        self.adam.param_groups[0]["lr"] = rate
        self.adam.step()
        for kernel, size in self.muon.items():
            momentum = self.momentum[kernel].lerp_(kernel.grad, 0.05)
            matrix = momentum.lerp(kernel.grad, 0.05).flatten(1)
            step = _orthogonal(matrix) * (size * math.sqrt(max(matrix.shape)))
            kernel.sub_(step.view_as(kernel), alpha=rate)
        for parameter in self.parameters:
            parameter.grad = None


def _orthogonal(matrix):
    """Return a matrix with singular values near 1, see ``clevr_xai.training.loop.orthogonalise``; here in bfloat16."""
    wide = matrix.shape[0] <= matrix.shape[1]
    result = matrix if wide else matrix.t()
    result = (result / (result.norm() + 1e-7)).bfloat16()
    for _ in range(5):
        square = result @ result.t()
        result = 3.4445 * result + (-4.7750 * square + 2.0315 * square @ square) @ result
    return (result if wide else result.t()).float()


def _cell_loss(targets, logits):
    """Return the mean loss of images' cells: whether one shows an object, and its attributes."""
    present = (targets[..., 0] >= 0).float()
    presence = F.binary_cross_entropy_with_logits(logits[..., 0], present, reduction="none")
    weight = torch.where(targets[..., 4] == CENTRE, 1.0, 0.05 * present)
    attributes = torch.zeros(())
    for place, (name, part) in enumerate(zip(ATTRIBUTES, logits[..., 1:].split(ATTRIBUTE_SIZES, -1), strict=True)):
        attributes = attributes + _crossentropy(targets[..., place], part) * (2.0 if name == "shape" else 1.0)
    return (presence.mean(-1) + (attributes * weight).sum(-1) / weight.sum(-1).clamp(min=1)).mean()


def _answer_loss(relations, inputs, targets):
    """Return the loss of the answers plus those of the auxiliary heads."""
    outputs = relations(**inputs)
    members = F.binary_cross_entropy_with_logits(
        outputs["members"], targets["members"].clamp(min=0).float(), reduction="none"
    )
    compared = _crossentropy(targets["compared"], outputs["compared"])
    operands = _crossentropy(targets["operands"], outputs["operands"])
    return (
        _crossentropy(targets["answer"], outputs["answer"]).mean()
        + 4 * _mean(members, targets["members"] >= 0)
        + 2 * (_mean(compared, targets["compared"] > 0) + _mean(compared, targets["compared"] == 0))
        + _mean(operands, targets["operands"] >= 0)
    )


def _crossentropy(targets, logits):
    losses = F.cross_entropy(logits.flatten(0, -2).float(), targets.clamp(min=0).flatten(), reduction="none")
    return losses.view(targets.shape)


def _mean(losses, known):
    axes = tuple(range(1, losses.ndim))
    return ((losses * known).sum(axes) / known.sum(axes).clamp(min=1)).mean()


def _made_ahead(make: Callable, numbers: range):
    """Yield what ``make`` returns for each number, made on a thread while the one before is used."""
    with futures.ThreadPoolExecutor(1) as pool:
        waiting: list[futures.Future] = []
        for number in numbers:
            waiting.append(pool.submit(make, number))
            if len(waiting) > 1:
                yield waiting.pop(0).result()
        for last in waiting:
            yield last.result()


class Training:
    """The stages, each from its checkpoint in ``directory`` if there is one."""

    def __init__(self, directory: pathlib.Path, data: TrainingSet, seed: int, steps: dict[str, int]):
        self.directory, self.data, self.seed, self.steps = directory, data, seed, steps

    def run(self, start_from: pathlib.Path | None) -> tuple[Reader, Eyes, Relations]:
        """Train what is missing and return the parts of the network, which starts from an exported one if wanted."""
        torch.manual_seed(self.seed)
        parts = reader, eyes, full = Reader(), Eyes().to(memory_format=torch.channels_last), Relations(FULL)
        network = warm_start.load_exported(start_from) if start_from else None
        if network:
            _set_weights(network.get_weights(), *parts)
        else:
            self._stage("reading", reader, {}, lambda rng: batches.reading_batch(self.data, rng, READ), Reader.loss)
        muon = {layer.weight: 2.0 for layer in eyes.convolutions}
        look = torch.compile(eyes.logits)
        self._stage("seeing", eyes, muon, self._augmented, lambda _, images, cells: self._see(look, images, cells))
        if network:
            pictures = self.data.images[: stages.REFIT_IMAGES]
            wanted = warm_start.encode_cells(network, pictures)
            network.set_weights(_weights(*parts))
            print(f"share of the cells' variance that is kept: {warm_start.refit_cells(network, pictures, wanted):.4f}")
            _set_weights(network.get_weights(), *parts)
            for head in (full.follow, full.compare, full.operands):  # gradients of random ones would change g
                nn.init.zeros_(head.weight)
        made = repr((start_from, self.seed, self.steps["reading"], self.steps["seeing"], len(self.data.images)))
        read = training_set.cached_arrays(self.directory / "codes.npz", made, lambda: _codes(reader, self.data))
        self.data.codes = read["codes"]
        seen = training_set.cached_arrays(self.directory / "variants.npz", made, lambda: self._variants(eyes))
        answering = _Answering(self.data, **seen)
        if not network:
            small = Relations(SMALL)
            self._stage("small", small, dict.fromkeys(small.kernels, 1.0), answering.batch, _answer_loss)
            full.grow(small)
        self._stage("final", full, dict.fromkeys(full.kernels, 1.0), answering.batch, _answer_loss)
        return reader.eval(), eyes.eval(), full.eval()

    def _stage(self, name: str, model: nn.Module, muon: dict, make_batch: Callable, loss: Callable) -> None:
        """Train a model; where batches are costly, one thread makes them and another computes."""
        optimizer, file, step = _Optimizer(model.parameters(), muon), self.directory / f"{name}.pt", 0
        steps = self.steps[name]
        if file.exists():
            state = torch.load(file)
            step = state["step"]
            model.load_state_dict(state["model"])
            optimizer.adam.load_state_dict(state["adam"])
            for momentum, stored in zip(optimizer.momentum.values(), state["momentum"], strict=True):
                momentum.copy_(stored)
        started, losses = time.monotonic(), []

        def batch(number):
            return make_batch(np.random.default_rng((self.seed, sum(map(ord, name)), number)))

        ahead = name == "seeing"
        torch.set_num_threads(1 if ahead else os.cpu_count())  # all wait for one whose core is busy
        for content in (_made_ahead if ahead else map)(batch, range(step, steps)):
            value = loss(model, *content)
            value.backward()
            left = (steps - step) / max(steps * (1 - CONSTANT[name]), 1)
            optimizer.step(RATES[name] * min((step + 1) / 200, 1.0, left))
            losses.append(value.item())
            step += 1
            if step % 250 == 0:
                cost = 1000 * (time.monotonic() - started) / len(losses)
                print(f"{name}, step {step}, loss {np.mean(losses):.4f}, {cost:.0f} ms a step", flush=True)
                started, losses = time.monotonic(), []
            if step % SAVE_STEPS == 0 or step == steps:
                momentum = list(optimizer.momentum.values())
                state = {"model": model.state_dict(), "adam": optimizer.adam.state_dict(), "momentum": momentum}
                torch.save(state | {"step": step}, file.with_suffix(".new"))
                file.with_suffix(".new").replace(file)

    def _augmented(self, rng: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        inputs, targets = batches.seeing_batch(self.data, rng, SEEN)
        return _images(inputs["image"]), _long(targets["cells"])

    @staticmethod
    def _see(look: Callable, images: torch.Tensor, cells: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            logits = look(images)
        return _cell_loss(cells, logits.float())

    def _variants(self, eyes: Eyes) -> dict[str, np.ndarray]:
        """Return what the convolutions and the scenes say of augmented variants of every image.

        ``features`` are (N, 8, 49, 24) float16. ``cells`` are (N, 8, 60) int8: what 49 cells show and the cells of 10
        objects, as ``batches.questions_about`` has them, and 1 for a mirrored variant.
        """
        found = {name: np.zeros((len(self.data.images), VARIANTS, *shape), kind)
                 for name, shape, kind in (("features", (49, 24), np.float16), ("cells", (60,), np.int8))}  # fmt: skip
        for first in range(0, len(self.data.images), 50):
            rows = np.arange(first, min(first + 50, len(self.data.images)))
            for variant in range(VARIANTS):
                rng = np.random.default_rng((self.seed, variant, first))
                images, shown, mirrored, cells = batches.augmented_images(self.data, rng, rows)
                with torch.no_grad():
                    found["features"][rows, variant] = eyes.eval()(_images(images)).numpy()
                kinds = np.where(shown[..., 0] < 0, -1, shown[..., 4])
                found["cells"][rows, variant] = np.concatenate([kinds, cells, mirrored[:, None]], axis=1)
        return found


class _Answering:
    """Batches of questions about stored features."""

    def __init__(self, data: TrainingSet, features: np.ndarray, cells: np.ndarray):
        self.data, self.features, self.cells = data, features, cells
        objects = np.isfinite(data.centres[..., 0]).sum(axis=1)
        self.groups = [(np.flatnonzero((objects >= low) & (objects <= high)), pairs) for low, high, pairs in GROUPS]
        column, row = np.meshgrid(np.arange(7) - 3.0, np.arange(7) - 3.0)
        self.places = np.broadcast_to(np.stack([column, row], -1).reshape(49, 2) / 2, (ANSWERED, 49, 2))

    def batch(self, rng: np.random.Generator) -> tuple[dict, dict]:
        """Return the arguments of ``Relations`` and its targets."""
        shares = np.array([len(members) for members, _ in self.groups])
        members, width = self.groups[rng.choice(len(GROUPS), p=shares / shares.sum())]
        images, variants = rng.choice(members, ANSWERED), rng.integers(0, VARIANTS, ANSWERED)
        cells = self.cells[images, variants].astype(np.int64)
        inputs, targets = batches.questions_about(
            self.data, rng, images, cells[:, 59], cells[:, :49], cells[:, 49:59], ABOUT, width
        )
        features = np.concatenate([self.features[images, variants], self.places], axis=-1)
        tensors = {name: torch.from_numpy(np.ascontiguousarray(values)) for name, values in inputs.items()}
        return {
            "features": torch.from_numpy(features.astype(np.float32)),
            "code": tensors["code"].float(),
            "pairs": tensors["pairs"].long(),
            "weights": tensors["pair_weights"],
            "rows": tensors["rows"],
        }, {name: _long(values) for name, values in targets.items()}


def _images(pixels: np.ndarray) -> torch.Tensor:
    images = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255
    return images.contiguous(memory_format=torch.channels_last)


def _long(values: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(values)).long()


@torch.no_grad()
def _codes(reader: Reader, data: TrainingSet) -> dict[str, np.ndarray]:
    """Return the ``codes`` of each question as it is and mirrored, (2, Q, 128) float16; short ones take less time."""
    found = np.zeros((2, len(data.tokens), 128), np.float16)
    lengths = (data.tokens > 0).sum(axis=1)
    order = np.argsort(lengths, kind="stable")
    for start in range(0, len(order), 2048):
        rows = order[start : start + 2048]
        words = data.tokens[rows, : lengths[rows].max()]
        for place, tokens in enumerate((words, batches.MIRRORED_TOKENS[words])):
            found[place, rows] = reader(_long(tokens)).numpy()
    return {"codes": found}


def _views(reader: Reader, eyes: Eyes, relations: Relations) -> list[torch.Tensor]:
    """Return the parts' weights in the order and with the axes of ``relation_network.build``."""
    found = []
    for layer, norm in zip(eyes.convolutions, eyes.norms, strict=True):
        found += [layer.weight.permute(2, 3, 1, 0), layer.bias]
        found += [norm.weight, norm.bias, norm.running_mean, norm.running_var]
    lstm = reader.lstm
    found += [reader.embedding.weight, lstm.weight_ih_l0.t(), lstm.bias_ih_l0, lstm.weight_hh_l0.t(), lstm.bias_hh_l0]
    found += [*relations.cells, relations.question.weight.t(), relations.question.bias]
    for kernel, bias in zip(relations.kernels, relations.biases, strict=True):
        found += [kernel, bias]
    for layer in relations.f:
        found += [layer.weight.t(), layer.bias]
    return [each.detach() for each in found]


def _weights(reader: Reader, eyes: Eyes, relations: Relations) -> list[np.ndarray]:
    reader.lstm.bias_ih_l0.data[128:256] -= 1  # relation_network.LstmStep adds it
    found = [view.numpy().copy() for view in _views(reader, eyes, relations)]
    reader.lstm.bias_ih_l0.data[128:256] += 1
    return found


def _set_weights(weights: list[np.ndarray], reader: Reader, eyes: Eyes, relations: Relations) -> None:
    for view, weight in zip(_views(reader, eyes, relations), weights, strict=True):
        view.copy_(torch.from_numpy(weight))
    reader.lstm.bias_ih_l0.data[128:256] += 1


def export(parts: tuple, training: Training, test_dir: pathlib.Path, directory: pathlib.Path) -> None:
    """Write the SavedModel with its card; questions about the scenes of ``test_dir`` give the accuracies."""
    network = relation_network.build(pair_scale=PAIR_SCALE, dropout=0.0)
    network.set_weights(_weights(*parts))
    plain = relation_network.fold_pair_scale(network)
    counted = training_set.load(test_dir, dict.fromkeys(ROUNDS, 1), wordings=WORDINGS)
    correct = model_card.correct_answers(plain, counted, np.arange(len(counted.answers)))
    settings = {
        "Training scenes": f"{len(training.data.images):,}, in {VARIANTS} augmented variants for the last stages",
        "precision in training": "bfloat16 of convolutions and g",
        "seed": training.seed,
    }
    rows = [
        {"stage": name, "steps": f"{training.steps[name]:,}", "a step": each, "learning rate": RATES[name],
         "share of it constant": CONSTANT[name]}
        for name, each in A_STEP.items() if (training.directory / f"{name}.pt").exists()
    ]  # fmt: skip
    card = model_card.model_card(
        counted, correct, settings, rows, shlex.join(["python", *sys.argv]), True,
        [*stages.error_section(plain, None, counted, correct), *stages.blank_section(plain, counted)],
    )  # fmt: skip
    relation_network.export(plain, directory, card)
    for kind, chosen in counted.rows_of_kind().items():
        print(f"{kind} questions: {100 * correct[chosen].mean():.1f} % of {len(chosen):,} correct")


def main() -> None:
    """Train what is missing, then export if wanted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("training", "test"):
        default = pathlib.Path(f"data/clevr_xai_{name}")
        parser.add_argument(f"--{name}_dir", type=pathlib.Path, default=default, help=f"{name} scenes")
    parser.add_argument("--directory", type=pathlib.Path, required=True, help="for checkpoints")
    parser.add_argument("--export", type=pathlib.Path, help="directory of the SavedModel; none is written when empty")
    parser.add_argument("--start_from", type=pathlib.Path, help="exported network; skips reading and small")
    for name, number in zip(
        ("reading_steps", "seeing_steps", "small_steps", "final_steps"), STEPS.values(), strict=True
    ):
        parser.add_argument(f"--{name}", type=int, default=number, help=f"default: {number:,}")
    parser.add_argument("--seed", type=int, default=2, help="of weights and batches")
    arguments = parser.parse_args()
    arguments.directory.mkdir(parents=True, exist_ok=True)
    file = arguments.directory / "training_set.npz"
    data = training_set.load_cached(file, arguments.training_dir, ROUNDS, wordings=WORDINGS)
    steps = {name: getattr(arguments, f"{name}_steps") for name in STEPS}
    training = Training(arguments.directory, data, arguments.seed, steps)
    parts = training.run(arguments.start_from)
    if arguments.export:
        export(parts, training, arguments.test_dir, arguments.export)


if __name__ == "__main__":
    main()
