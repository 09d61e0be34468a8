"""The networks of the benchmarks as PyTorch modules: readable examples without anything of this project.

Inputs are ``(N, channels, positions...)``, embeddings of sequences ``(N, tokens, width)``; outputs are logits. Each
module is used once, so that hooks of captum, zennit and grad-cam work: convolutions pad themselves, sums are modules.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import torch
from torch import Tensor, nn

with contextlib.suppress(ImportError, RuntimeError):  # a torchvision that is missing or does not fit PyTorch
    import zennit  # noqa: F401  # of which the other modules are then there
try:  # its rules of relevance know its own module only
    from zennit.layer import Sum
except (ImportError, RuntimeError):

    class Sum(nn.Module):  # type: ignore[no-redef]
        """Sum over an axis."""

        def __init__(self, dim: int = -1):
            super().__init__()
            self.dim = dim

        def forward(self, x: Tensor) -> Tensor:
            """Return the sum."""
            return torch.sum(x, dim=self.dim)


class SameConv2d(nn.Conv2d):
    """A convolution with TensorFlow's padding "same", which is uneven where the stride is 2."""

    def _conv_forward(self, x, weight, bias):
        padding = []
        for size, kernel, stride in zip(x.shape[2:], self.kernel_size, self.stride, strict=True):
            total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
            padding = [total // 2, total - total // 2, *padding]
        return super()._conv_forward(nn.functional.pad(x, padding), weight, bias)


class Network(nn.Module):
    """A network whose scores are logits."""

    channels_first = True
    has_products = False  # of activations, which the rules of captum's DeepLIFT and of zennit do not know

    @property
    def logits(self) -> nn.Module:
        """The network itself."""
        return self


class Probabilities(nn.Module):
    """A network with a softmax, in float64: in float32 gradients of sure answers are lost."""

    def __init__(self, logits: Network):
        super().__init__()
        self.logits = logits
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Return probabilities, (N, classes) float32."""
        return self.softmax(self.logits(*inputs).double()).float()


class Chain(Network, nn.Sequential):
    """Modules one after the other."""


class Added(Network):
    """The sum of what several modules make of one input."""

    def __init__(self, *parts: nn.Module):
        super().__init__()
        self.parts, self.sum = nn.ModuleList(parts), Sum()

    def forward(self, x: Tensor) -> Tensor:
        """Return the sum."""
        return self.sum(torch.stack([part(x) for part in self.parts], dim=-1))


class Joined(Added):
    """All that several modules make of one input."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs one after the other."""
        return torch.cat([part(x) for part in self.parts], dim=1)


def svea() -> Network:
    """SVEA: signals (N, 1, 40) to 10 digits."""
    return Chain(
        nn.Conv1d(1, 25, 5, padding="same"), nn.ReLU(),
        nn.Conv1d(25, 25, 3, padding="same"), nn.ReLU(),
        nn.Conv1d(25, 25, 3, padding="same"), nn.ReLU(),
        nn.Flatten(), nn.Linear(1000, 10),
    )  # fmt: skip


def checked(images: bool = False) -> Network:
    """Networks of ``attribution-benchmarks check``: signals (N, 2, 24) or images (N, 3, 16, 16) to 4 classes."""
    convolve, pool = (nn.Conv2d, nn.MaxPool2d) if images else (nn.Conv1d, nn.MaxPool1d)
    channels, size, values = (3, 3, 320) if images else (2, 5, 60)
    return Chain(
        convolve(channels, 6, size, padding="same"), nn.ReLU(), pool(2),
        convolve(6, 5, 3, padding="same"), nn.ReLU(), nn.Flatten(), nn.Linear(values, 4),
    )  # fmt: skip


def convolution(channels: int, filters: int, size: int, stride: int, normalized: bool) -> nn.Module:
    """Return a convolution with a bias, or with batch normalization."""
    found = SameConv2d(channels, filters, size, stride, bias=not normalized)
    return nn.Sequential(found, nn.BatchNorm2d(filters, eps=1e-3)) if normalized else found


def block(channels: int, filters: int, stride: int, normalized: bool, shortcut: bool) -> nn.Module:
    """Return a residual block: two convolutions, added to the input or to a convolution of it, and rectified."""
    first = convolution(channels, filters, 3, stride, normalized)
    inner = nn.Sequential(first, nn.ReLU(), convolution(filters, filters, 3, 1, normalized))
    around = convolution(channels, filters, 1, stride, normalized) if shortcut else nn.Identity()
    return nn.Sequential(Added(inner, around), nn.ReLU())


def bim() -> Network:
    """BIM: images (N, 3, 128, 128), RGB minus the channel means, to 10 classes; batch normalization is folded."""
    sizes = ((16, 16, 1), (16, 32, 2), (32, 64, 2), (64, 96, 1))
    return Chain(
        SameConv2d(3, 16, 5, 2), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True),
        *(block(*size, normalized=False, shortcut=size[0] != size[1]) for size in sizes),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(96, 10),
    )  # fmt: skip


def parts(residual: bool = False) -> Network:
    """Parts: images (N, 3, 48, 48) of 0 to 1 to 10 classes, with plain convolutions or residual blocks."""
    if residual:
        sizes, channels = ((16, 16, 1), (16, 32, 2), (32, 56, 2)), 56
        blocks = (block(*size, normalized=True, shortcut=True) for size in sizes)
        features = [convolution(3, 16, 3, 2, True), nn.ReLU(), *blocks]
    else:
        channels = 64
        features = [
            convolution(3, 24, 5, 2, True), nn.ReLU(),
            convolution(24, 40, 3, 1, True), nn.ReLU(), nn.MaxPool2d(2),
            convolution(40, 56, 3, 1, True), nn.ReLU(), nn.MaxPool2d(2),
            convolution(56, 64, 3, 1, True), nn.ReLU(),
        ]  # fmt: skip
    return Chain(
        *features, nn.MaxPool2d(6), nn.Flatten(), nn.Linear(channels, 64), nn.ReLU(), nn.Linear(64, 10)
    )  # fmt: skip


def hand_set(units: int = 17, problems: int = 7) -> Network:
    """Hand-set hidden units and a linear part: vectors (N, 12) to ``problems`` outputs; XAI-Units, a part of exact."""
    hidden = nn.Sequential(nn.Linear(12, units), nn.ReLU(), nn.Linear(units, problems, bias=False))
    return Added(hidden, nn.Linear(12, problems))


def perceptron(activation: Callable[[], nn.Module]) -> nn.Module:
    """Return a trained part of exact."""
    return nn.Sequential(nn.Linear(12, 32), activation(), nn.Linear(32, 32), activation(), nn.Linear(32, 1))


def exact() -> Network:
    """Exact problems: vectors (N, 12) to seven hand-set outputs and two trained ones."""
    return Joined(hand_set(units=9), perceptron(nn.ReLU), perceptron(lambda: nn.LeakyReLU(0.2)))


def tetrominoes() -> Network:
    """XAI-TRIS: images (N, 1, 8, 8) to two classes for each of eight problems."""
    windows = nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 16))
    return Added(
        nn.Sequential(nn.Flatten(), nn.Linear(64, 144), nn.ReLU(), nn.Linear(144, 16, bias=False)), windows
    )  # fmt: skip


def last_state(lstm: nn.LSTM, x: Tensor, words: Tensor) -> Tensor:
    """Return the state of an LSTM after the last word that is not padding, (N, units)."""
    states, _ = lstm(x)
    last = (words != 0).sum(dim=1) - 1
    return states[torch.arange(len(x)), last]


class Asked(Network):
    """What the networks of CLEVR-XAI share: convolutions, and an LSTM that reads the question."""

    def __init__(self):
        super().__init__()
        layers = []
        for channels in (3, 24, 24, 24):
            layers += [nn.Conv2d(channels, 24, 3, 2), nn.ReLU(), nn.BatchNorm2d(24, eps=1e-3)]
        self.convolutions = nn.Sequential(*layers)
        self.embedding = nn.Embedding(82, 32)
        self.lstm = nn.LSTM(32, 128, batch_first=True)

    def cells(self, x: Tensor) -> Tensor:
        """Return the features of each cell of an image with its place, (N, 49, 26)."""
        features = self.convolutions(x)
        rows, columns = features.shape[2:]
        row, column = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
        places = torch.stack([column - (columns - 1) / 2, row - (rows - 1) / 2]) / 2
        return torch.cat([features, places.to(features).expand(len(x), -1, -1, -1)], dim=1).flatten(2).mT

    def read(self, words: Tensor) -> Tensor:
        """Return the code of a question, (N, 128)."""
        return last_state(self.lstm, self.embedding(words), words)


class RelationNetwork(Asked):
    """CLEVR-XAI: images (N, 3, 128, 128) of 0 to 1 and words (N, L) of a question to 28 answers."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(26, 256, bias=False), nn.Linear(26, 256, bias=False)
        self.question = nn.Linear(128, 256)
        self.sum = Sum()
        self.g = nn.Sequential(
            nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU()
        )
        self.over_pairs = Sum(dim=1)
        self.f = nn.Sequential(
            nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 28)
        )  # fmt: skip

    def forward(self, x: Tensor, words: Tensor) -> Tensor:
        """Return logits: f of the sum of g over all pairs of cells."""
        cells, question = self.cells(x), self.question(self.read(words))
        parts = self.first(cells)[:, :, None], self.second(cells)[:, None], question[:, None, None]
        pairs = self.g(self.sum(torch.stack(torch.broadcast_tensors(*parts), dim=-1)))
        return self.f(self.over_pairs(pairs.flatten(1, 2)))


class Lstm(Network):
    """Sequences: embeddings (N, 12, 32), with words (N, 12), to two classes for each of six tasks."""

    channels_first, has_products = False, True

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(32, 32, batch_first=True)
        self.dense = nn.Linear(32, 12)

    def forward(self, x: Tensor, words: Tensor) -> Tensor:
        """Return logits."""
        return self.dense(last_state(self.lstm, x, words))


class Cnn(Network):
    """Sequences: three convolutions and the maxima over positions; see ``Lstm``."""

    channels_first = False

    def __init__(self):
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv1d(32, 32, 5, padding="same") for _ in range(3))
        self.relus = nn.ModuleList(nn.ReLU() for _ in range(3))
        self.pool = nn.AdaptiveMaxPool1d(1)
        self.dense = nn.Linear(32, 12)

    def forward(self, x: Tensor, words: Tensor) -> Tensor:
        """Return logits."""
        x, real = x.mT, (words != 0).to(x)[:, None]
        for layer, relu in zip(self.convolutions, self.relus, strict=True):
            x = relu(layer(x)) * real
        return self.dense(self.pool(x).flatten(1))


def turned(x: Tensor) -> Tensor:
    """Return queries or keys, (N, heads, tokens, 8), turned by angles in proportion to their positions."""
    angles = torch.outer(torch.arange(x.shape[2]), 100.0 ** (-torch.arange(4) / 4)).tile(2).to(x)
    left, right = x.chunk(2, dim=-1)
    return x * angles.cos() + torch.cat([-right, left], dim=-1) * angles.sin()


class Layer(nn.Module):
    """A layer of a transformer: attention of four heads, with rotary positions on request, and two dense layers."""

    def __init__(
        self, normalized: bool, rotary: bool, width: int = 32, wider: int = 64, epsilon: float = 1e-3,
        activation: Callable[[], nn.Module] = nn.ReLU,
    ):  # fmt: skip
        super().__init__()
        self.rotary, self.size = rotary, width // 4
        self.norm, norm = (nn.LayerNorm(width, eps=epsilon) if normalized else nn.Identity() for _ in range(2))
        self.queries, self.keys, self.values, self.out = (nn.Linear(width, width) for _ in range(4))
        self.dense = nn.Sequential(norm, nn.Linear(width, wider), activation(), nn.Linear(wider, width))

    def forward(self, x: Tensor, hidden: Tensor | float = 0.0) -> Tensor:
        """Return (N, tokens, width); ``hidden`` (N, 1, 1, tokens) is added to the weights before their softmax."""
        given = self.norm(x)
        queries, keys, values = (
            part(given).unflatten(-1, (4, self.size)).transpose(1, 2) for part in (self.queries, self.keys, self.values)
        )
        if self.rotary:
            queries, keys = turned(queries), turned(keys)
        weights = (queries @ keys.mT / self.size**0.5 + hidden).softmax(dim=-1)
        x = x + self.out((weights @ values).transpose(1, 2).flatten(2))
        return x + self.dense(x)


class Asking(nn.Module):
    """A block of ``CrossAttention``: the query attends to the cells, and passes two dense layers."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(128, eps=1e-6)
        self.queries, self.keys, self.values, self.out = (nn.Linear(128, 128) for _ in range(4))
        self.dense = nn.Sequential(nn.LayerNorm(128, eps=1e-6), nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 128))

    def forward(self, query: Tensor, cells: Tensor) -> Tensor:
        """Return the query, (N, 1, 128)."""
        parts = self.queries(self.norm(query)), self.keys(cells), self.values(cells)
        queries, keys, values = (part.unflatten(-1, (4, 32)).transpose(1, 2) for part in parts)
        weights = (queries @ keys.mT / 32**0.5).softmax(dim=-1)
        query = query + self.out((weights @ values).transpose(1, 2).flatten(2))
        return query + self.dense(query)


class CrossAttention(Asked):
    """CLEVR-XAI by attention, from and to what ``RelationNetwork`` takes and gives."""

    has_products = True

    def __init__(self):
        super().__init__()
        self.seen, self.asked = nn.Linear(26, 128), nn.Linear(128, 128)
        self.keys = nn.Sequential(nn.ReLU(), nn.Linear(128, 128), nn.LayerNorm(128, eps=1e-6))
        self.blocks = nn.ModuleList(Asking() for _ in range(3))
        self.answer = nn.Sequential(nn.LayerNorm(128, eps=1e-6), nn.Linear(128, 28))

    def forward(self, x: Tensor, words: Tensor) -> Tensor:
        """Return logits."""
        query, cells = self.asked(self.read(words))[:, None], self.keys(self.seen(self.cells(x)))
        for block in self.blocks:
            query = block(query, cells)
        return self.answer(query[:, 0])


class VisionTransformer(Network):
    """BIM: images as of ``bim`` to 10 classes, by four convolutions and three layers of attention."""

    has_products = True

    def __init__(self):
        super().__init__()
        convolutions = []
        for channels, filters in ((3, 16), (16, 32), (32, 64)):
            convolutions += [SameConv2d(channels, filters, 3, 2), nn.ReLU()]
        self.stem = nn.Sequential(*convolutions, SameConv2d(64, 64, 3, 2))
        self.positions = nn.Parameter(torch.zeros(1, 64, 64))
        self.layers = nn.ModuleList(Layer(True, False, 64, 256, 1e-6, nn.GELU) for _ in range(3))
        self.norm, self.dense = nn.LayerNorm(64, eps=1e-6), nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        x = self.stem(x / 64).flatten(2).mT + self.positions
        for layer in self.layers:
            x = layer(x)
        return self.dense(self.norm(x).mean(dim=1))


class Transformer(Network):
    """Sequences: two layers; see ``Lstm``.

    Parameters
    ----------
    normalized, rotary
        Whether it has layer normalization, and rotary instead of learned positions.
    cls
        Whether a first token without content is read, rather than the mean over tokens.
    """

    channels_first, has_products = False, True

    def __init__(self, normalized: bool, rotary: bool, cls: bool):
        super().__init__()
        self.cls = cls
        self.positions = None if rotary else nn.Parameter(torch.zeros(12 + cls, 32))
        self.layers = nn.ModuleList(Layer(normalized, rotary) for _ in range(2))
        self.norm = nn.LayerNorm(32, eps=1e-3) if normalized else nn.Identity()
        self.dense = nn.Linear(32, 12)

    def forward(self, x: Tensor, words: Tensor) -> Tensor:
        """Return logits."""
        real = (words != 0).to(x)
        if self.cls:
            x = torch.cat([torch.zeros_like(x[:, :1]), x], dim=1)
            real = torch.cat([torch.ones_like(real[:, :1]), real], dim=1)
        if self.positions is not None:
            x = x + self.positions
        for layer in self.layers:
            x = layer(x, -1e9 * (1 - real)[:, None, None])
        x = self.norm(x)
        read = x[:, 0] if self.cls else (x * real[..., None]).sum(dim=1) / real.sum(dim=1, keepdim=True)
        return self.dense(read)
