"""Measure CPU time and passes of attribution methods beside other libraries, and write docs/performance.md.

    python -m tools.performance --only=gradient,lrp_epsilon_plus --networks=cnn,lstm --repeats=3
    git worktree add --detach /tmp/before v0.4.0 && python -m tools.performance --before=/tmp/before

All libraries take turns in one process on one thread. Results are ratios of CPU time of the same work on the same
machine in the same minutes. ``keras`` is the method written with a compiled ``tf.GradientTape`` on the live Keras
network; for LRP and DeepLIFT it is only the passes that the method needs. captum and zennit explain the same network in
PyTorch, with the same weights. Entries of a library that is not installed are blank; others keep their values.
With --before, the project is compared with an earlier commit alone, at the default batch size.

    python -m venv .venv-performance
    .venv-performance/bin/pip install -e '.[third-party]' torch==2.13.0 captum==0.9.0
    .venv-performance/bin/pip install --no-deps zennit==0.5.1  # it needs torchvision for a part that is not used

Cost: 15 CPU minutes.
"""

from __future__ import annotations

import collections
import contextlib
import csv
import functools
import gc
import importlib.util
import itertools
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Callable
from typing import Any

with contextlib.suppress(ImportError):
    import torch  # before TensorFlow: the other order may crash

    torch.set_num_threads(1)
    sys.modules["zennit.torchvision"] = types.ModuleType("zennit.torchvision")  # not needed, and needs torchvision

import keras
import numpy as np
import tensorflow as tf
from absl import flags

import attribution
from attribution import cli
from attribution.errors import BadInput, listed
from attribution.files import atomic_write
from attribution_benchmarks.core.tables import markdown_table
from tools.docs.page_parts import ROOT, replace_parts

BATCH, POINTS, SIDE = 16, 16, 8  # rows of a pass, points or samples, side of a patch of occlusion
INPUTS = {"mlp": 64, "cnn": 16, "lstm": 16, "resnet": 8, "transformer": 8}
SHAPES = {"mlp": (64,), "cnn": (32, 32, 3), "lstm": (40, 8), "resnet": (64, 64, 3), "transformer": (64, 64, 3)}
TITLES = {
    "load": "load",
    "first": "first gradient",
    "gradient": "gradient",
    "integrated_gradients": f"Integrated Gradients, {POINTS} points",
    "smoothgrad": f"SmoothGrad, {POINTS} samples",
    "occlusion": f"occlusion, patches of {SIDE}",
    "lrp_epsilon_plus": "LRP-ε+",
    "deeplift": "DeepLIFT",
    "grad_cam": "Grad-CAM",
    "rise": "RISE, 500 masks",
    "xrai": f"XRAI again, {POINTS} points",
    "start": "import and load",
}
LIBRARIES = ("keras", "captum", "zennit")
INSTALLED = [name for name in LIBRARIES if importlib.util.find_spec(name)]
SAME_MAP = ("gradient", "occlusion", "lrp_epsilon_plus", "deeplift")  # the libraries' maps are ours
COLUMNS = ("network", "task", "inputs", "ms", "passes", "needed", *LIBRARIES, "spread", "difference", "before")

FLAGS = flags.FlagValues()
flags.DEFINE_list("only", [], f"tasks, of {', '.join(TITLES)}; all by default", flag_values=FLAGS)
flags.DEFINE_list("networks", [], f"networks, of {', '.join(INPUTS)}; all by default", flag_values=FLAGS)
flags.DEFINE_integer("repeats", 5, "rounds through all libraries", lower_bound=1, flag_values=FLAGS)
flags.DEFINE_string("page", str(ROOT / "docs" / "performance.md"), "page with the tables", flag_values=FLAGS)
flags.DEFINE_string("before", "", "checkout of an earlier commit; compare only with it", flag_values=FLAGS)
flags.DEFINE_string("child", "", "measure NETWORK:FILE for another process", flag_values=FLAGS)

layers = keras.layers
LAYERS = {  # kinds of layers and their widths, the same in Keras and PyTorch
    "mlp": ["dense 256", "relu", "dense 256", "relu", "dense 10"],
    "cnn": ["conv 16", "relu", "max", "conv 32", "relu", "max", "conv 64", "relu", "pool", "dense 10"],
    "lstm": ["lstm 32", "dense 10"],
    "resnet": ["conv 32", "relu", *(f"block {width}" for width in (32, 64, 128)), "pool", "dense 10"],
    "transformer": ["patches 64", *["encoder 64"] * 4, "mean", "dense 10"],
}


def built(name: str) -> keras.Model:
    """Return a network with random weights, always the same ones."""

    def normalized(x, width, size=3):
        return layers.BatchNormalization()(layers.Conv2D(width, size, padding="same")(x))

    def block(x, width):  # mean pooling, and a residual block of two convolutions (He et al. 2016)
        x = layers.AveragePooling2D(2)(x)
        y = normalized(layers.ReLU()(normalized(x, width)), width)
        return layers.ReLU()(layers.Add()([y, normalized(x, width, 1)]))

    def encoder(x, width):  # with one head (Dosovitskiy et al. 2021)
        query, key, value = keras.ops.split(layers.Dense(3 * width)(layers.LayerNormalization()(x)), 3, axis=-1)
        shares = keras.ops.softmax(query @ keras.ops.swapaxes(key, 1, 2) / width**0.5)
        x = layers.Add()([x, layers.Dense(width)(shares @ value)])
        y = layers.Dense(4 * width, activation="gelu")(layers.LayerNormalization()(x))
        return layers.Add()([x, layers.Dense(width)(y)])

    makers = {
        "dense": lambda x, width: layers.Dense(width)(x),
        "relu": lambda x, _: layers.ReLU()(x),
        "conv": lambda x, width: layers.Conv2D(width, 3, padding="same")(x),
        "max": lambda x, _: layers.MaxPooling2D(2)(x),
        "pool": lambda x, _: layers.GlobalAveragePooling2D()(x),
        "lstm": lambda x, width: layers.LSTM(width)(x),
        "block": block,
        "patches": lambda x, width: layers.Reshape((-1, width))(layers.Conv2D(width, 8, 8)(x)),
        "encoder": encoder,
        "mean": lambda x, _: layers.GlobalAveragePooling1D()(x),
    }
    keras.backend.clear_session()  # names of layers count from 0
    keras.utils.set_random_seed(0)
    x = given = keras.Input(SHAPES[name])
    for kind, _, width in (text.partition(" ") for text in LAYERS[name]):
        x = makers[kind](x, int(width or 0))
    return keras.Model(given, x)


def twin(name: str, network: keras.Model) -> Any:
    """Return a network in PyTorch, with the weights of the Keras network."""
    from torch import nn
    from zennit.layer import Sum

    class Function(nn.Module):
        """A function of a tensor and of layers, which are made in the order in which Keras makes them."""

        def __init__(self, function, *parts):
            super().__init__()
            self.function, self.parts = function, nn.ModuleList(parts)

        def forward(self, x):
            return self.function(x, *self.parts)

    def normalized(inputs, width, size=3):
        return [nn.Conv2d(inputs, width, size, padding=size // 2), nn.BatchNorm2d(width, eps=0)]

    def block(inputs, width):
        main = nn.Sequential(*normalized(inputs, width), nn.ReLU(), *normalized(width, width))
        short = nn.Sequential(*normalized(inputs, width, 1))
        both = Function(lambda x, main, short, add: add(torch.stack([main(x), short(x)], -1)), main, short, Sum())
        return [nn.AvgPool2d(2), both, nn.ReLU()]

    def encoded(x, norm, project, mix, other_norm, up, down):
        query, key, value = project(norm(x)).chunk(3, -1)
        x = x + mix(torch.softmax(query @ key.transpose(1, 2) / x.shape[-1] ** 0.5, -1) @ value)
        return x + down(nn.functional.gelu(up(other_norm(x))))

    def encoder(_, width):
        norms = [nn.LayerNorm(width, eps=1e-3) for _ in range(2)]
        dense = [*(nn.Linear(width, times * width) for times in (3, 1, 4)), nn.Linear(4 * width, width)]
        return [Function(encoded, norms[0], *dense[:2], norms[1], *dense[2:])]

    makers = {
        "dense": lambda *widths: [nn.Linear(*widths)],
        "relu": lambda *_: [nn.ReLU()],
        "conv": lambda *widths: [nn.Conv2d(*widths, 3, padding="same")],
        "max": lambda *_: [nn.MaxPool2d(2)],
        "pool": lambda *_: [nn.AdaptiveAvgPool2d(1), nn.Flatten()],
        "lstm": lambda *widths: [nn.LSTM(*widths, batch_first=True), Function(lambda found: found[0][:, -1])],
        "block": block,
        "patches": lambda *widths: [nn.Conv2d(*widths, 8, 8), Function(lambda x: x.flatten(2).transpose(1, 2))],
        "encoder": encoder,
        "mean": lambda *_: [Function(lambda x: x.mean(1))],
    }
    parts, inputs = [], SHAPES[name][-1]
    for kind, _, width in (text.partition(" ") for text in LAYERS[name]):
        parts += makers[kind](inputs, int(width or 0))
        inputs = int(width or inputs)
    module = nn.Sequential(*parts).eval()
    kinds = {layers.Conv2D: nn.Conv2d, layers.Dense: nn.Linear, layers.LSTM: nn.LSTM}
    kinds |= {layers.BatchNormalization: nn.BatchNorm2d, layers.LayerNormalization: nn.LayerNorm}
    recurrent = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0")
    for keras_kind, kind in kinds.items():
        names = recurrent if kind is nn.LSTM else ("weight", "bias", "running_mean", "running_var")
        made = [layer for layer in network.layers if isinstance(layer, keras_kind)]
        made.sort(key=lambda layer: (len(layer.name), layer.name))  # in the order in which they were made
        theirs = [part for part in module.modules() if isinstance(part, kind)]
        for part, layer in zip(theirs, made, strict=True):
            for one, values in zip(names, layer.get_weights(), strict=False):
                values = np.moveaxis(values, (-1, -2), (0, 1)) if values.ndim > 1 else values
                getattr(part, one).data = torch.tensor(values + 1e-3 if one == "running_var" else values)
            if kind is nn.LSTM:
                part.bias_hh_l0.data.zero_()
    return module


Tasks = dict[str, Callable[[], np.ndarray]]


def in_batches(function: Callable, count: int, size: int = BATCH) -> Callable[[], np.ndarray]:
    """Return a function that joins what another one returns for slices of at most ``size`` of ``count`` rows."""
    return lambda: np.concatenate([function(slice(start, start + size)) for start in range(0, count, size)])


def ours(model: attribution.Model, x: np.ndarray, targets: np.ndarray, **given: Any) -> Tasks:
    """Return this project's methods that apply to a network's inputs ``(N, ...)`` and classes ``(N,)``."""
    options: dict[str, dict[str, int]] = {name: {} for name in ("gradient", "lrp_epsilon_plus", "deeplift")}
    options |= {"integrated_gradients": {"points": POINTS}, "smoothgrad": {"samples": POINTS}}
    options |= {"occlusion": {"patch": SIDE}} if x.ndim > 2 else {}
    options |= {"grad_cam": {}} if x.ndim == 4 else {}
    explain = functools.partial(attribution.explain, model=model, inputs=x, targets=targets, **given)
    return {name: functools.partial(explain, name, **values) for name, values in options.items()}


def with_tape(scores: Callable, x: np.ndarray, targets: np.ndarray, network: keras.Model | None = None) -> Tasks:
    """Return methods written with TensorFlow alone; of LRP and DeepLIFT the passes that they need.

    ``scores`` is a function from inputs ``(n, ...)`` to scores ``(n, classes)``; Grad-CAM needs the live network.
    """
    compiled = functools.partial(tf.function, reduce_retracing=True, autograph=False)
    forward = compiled(scores)

    @compiled
    def slopes(rows, classes):
        with tf.GradientTape() as tape:
            tape.watch(rows)
            chosen = tf.gather(scores(rows), classes, batch_dims=1)
        return tape.gradient(chosen, rows)

    def run(function, *arrays):
        return in_batches(lambda part: function(*(tf.constant(one[part]) for one in arrays)).numpy(), len(arrays[0]))()

    def mean_slope(copies):  # (N, copies, ...)
        rows = copies.reshape(-1, *x.shape[1:])
        return run(slopes, rows, np.repeat(targets, POINTS)).reshape(copies.shape).mean(axis=1)

    def path():
        shares = np.linspace(0, 1, POINTS, dtype=np.float32).reshape(-1, *[1] * (x.ndim - 1))
        return x * mean_slope(shares * x[:, np.newaxis])

    def noisy():
        noise = np.random.default_rng(0).standard_normal((len(x), POINTS, *x.shape[1:]), np.float32)
        return mean_slope(x[:, np.newaxis] + 0.15 * np.ptp(x) * noise)

    def occlusion():
        corners = list(np.ndindex(*(size // SIDE for size in x.shape[1:-1])))
        masks = np.ones((len(corners) + 1, 1, *x.shape[1:-1], 1), np.float32)  # the first one hides nothing
        for mask, corner in zip(masks[1:], corners, strict=True):
            mask[(0, *(slice(SIDE * one, SIDE * (one + 1)) for one in corner))] = 0
        found = run(forward, (masks * x).reshape(-1, *x.shape[1:])).reshape(len(masks), len(x), -1)
        found = found[:, np.arange(len(x)), targets]
        return np.tensordot((found[0] - found[1:]).T, 1 - masks[1:, 0, ..., 0], 1)

    gradient = functools.partial(run, slopes, x, targets)
    found = {"gradient": gradient, "integrated_gradients": path, "smoothgrad": noisy, "lrp_epsilon_plus": gradient}
    found |= {"deeplift": lambda: [gradient(), run(forward, x)]} | ({"occlusion": occlusion} if x.ndim > 2 else {})
    if network and (last := last_rectifier(network)):
        both = keras.Model(network.inputs, [last.output, network.outputs[0]])

        @compiled
        def cam(rows, classes):
            with tf.GradientTape() as tape:
                values, logits = both(rows, training=False)
                chosen = tf.gather(logits, classes, batch_dims=1)
            weights = tf.reduce_mean(tape.gradient(chosen, values), axis=(1, 2), keepdims=True)
            maps = tf.nn.relu(tf.reduce_sum(weights * values, axis=-1, keepdims=True))
            return tf.image.resize(maps, x.shape[1:3])

        found["grad_cam"] = functools.partial(run, cam, x, targets)
    return found


def last_rectifier(network: keras.Model) -> Any:
    """Return the last ReLU on positions and channels; ``None`` where there is none."""
    known = [layer for layer in network.layers if isinstance(layer, layers.ReLU) and len(layer.output.shape) == 4]
    return known[-1] if known else None


def captum(module: Any, x: np.ndarray, targets: np.ndarray) -> Tasks:
    """Return the methods of captum; DeepLIFT where all layers have its rules."""
    import captum.attr as library

    rows, classes = as_tensor(x), torch.from_numpy(targets)

    def run(kind, size=BATCH, **options):
        explain = kind(module).attribute
        return in_batches(lambda part: as_array(explain(rows[part], target=classes[part], **options)), len(x), size)

    noisy = {"nt_samples": POINTS, "nt_samples_batch_size": POINTS, "stdevs": 0.15, "abs": False}
    found = {
        "gradient": run(library.Saliency, abs=False),
        "integrated_gradients": run(library.IntegratedGradients, n_steps=POINTS, internal_batch_size=BATCH),
        "smoothgrad": run(lambda network: library.NoiseTunnel(library.Saliency(network)), 1, **noisy),
    }
    if x.ndim > 2:
        window = (3, SIDE, SIDE) if x.ndim == 4 else (SIDE, x.shape[-1])
        found["occlusion"] = run(library.Occlusion, sliding_window_shapes=window, strides=window)
    if not has_other_rules(module):
        found["deeplift"] = run(library.DeepLift)
        if x.ndim == 4:
            last = [part for part in module if isinstance(part, torch.nn.ReLU)][-1]
            found["grad_cam"] = run(lambda network: library.LayerGradCam(network, last), relu_attributions=True)
    return found


def zennit(module: Any, x: np.ndarray, targets: np.ndarray) -> Tasks:
    """Return LRP-ε+ of zennit where all layers have its rules; relevance begins with the score."""
    from zennit.attribution import Gradient
    from zennit.canonizers import SequentialMergeBatchNorm
    from zennit.composites import EpsilonPlus

    ones = torch.eye(10)[torch.from_numpy(targets)]

    def explain(part):
        with Gradient(module, EpsilonPlus(canonizers=[SequentialMergeBatchNorm()])) as attributor:
            return as_array(attributor(as_tensor(x[part]), lambda scores: scores * ones[part])[1])

    return {} if has_other_rules(module) else {"lrp_epsilon_plus": in_batches(explain, len(x))}


def has_other_rules(module: Any) -> bool:
    """Return whether a network has layers for which captum's DeepLIFT and zennit have no rule, or another one."""
    return any(isinstance(part, (torch.nn.LSTM, torch.nn.LayerNorm)) for part in module.modules())


def as_tensor(x: np.ndarray) -> Any:
    """Return inputs for PyTorch, images with their channels first."""
    return torch.from_numpy(np.moveaxis(x, -1, 1).copy() if x.ndim == 4 else x)


def as_array(maps: Any) -> np.ndarray:
    """Return PyTorch's maps, those of images with their channels last."""
    found = maps.detach().numpy()
    return np.moveaxis(found, 1, -1) if found.ndim == 4 else found


def seconds_of(run: Callable, calls: int = 1) -> float:
    """Return the CPU seconds of one call, the mean over some calls."""
    start = time.process_time()
    for _ in range(calls):
        run()
    return (time.process_time() - start) / calls


def starts(path: str, network: keras.Model, module: Any, x: np.ndarray, repeats: int) -> dict[str, dict]:
    """Return the CPU seconds of loading and of the first gradient, task -> library -> one number a round."""
    found: dict[str, dict] = {name: collections.defaultdict(list) for name in ("load", "first")}
    row, target = x[:1], np.zeros(1, np.int64)
    for number in range(repeats + 1):
        gc.collect()  # models of equal graphs share what is compiled while one of them exists
        models: list[Any] = []
        times = {("load", "ours"): seconds_of(lambda models=models: models.append(attribution.load_model(path)))}
        times["load", "keras"] = seconds_of(lambda: tf.saved_model.load(path))
        times["first", "ours"] = seconds_of(ours(models[0], row, target)["gradient"])
        times["first", "keras"] = seconds_of(with_tape(network, row, target)["gradient"])
        if module is not None:
            times["first", "captum"] = seconds_of(captum(module, row, target)["gradient"])
        for (task, library), seconds in times.items() if number else ():  # the first round also starts TensorFlow
            found[task][library].append(seconds)
    return found


def passes_needed(task: str, x: np.ndarray) -> str:
    """Return the forward passes F and the gradients G of one input that a method cannot do without."""
    patches = math.prod(size // SIDE for size in x.shape[1:-1]) + 1
    many = dict.fromkeys(("integrated_gradients", "smoothgrad"), f"{POINTS} G")
    return {"occlusion": f"{patches} F", "deeplift": "1 F + 1 G", "load": "", **many}.get(task, "1 G")


def measure(name: str, path: str, network: keras.Model, tasks: list[str], repeats: int) -> list[dict[str, Any]]:
    """Return the rows of a network, a row for each of some tasks that applies."""
    x = np.random.default_rng(0).random((INPUTS[name], *network.input_shape[1:]), dtype=np.float32)
    targets = np.arange(len(x)) % 10
    module = twin(name, network) if {"captum", "zennit"} <= set(INSTALLED) else None
    if module is not None:
        np.testing.assert_allclose(module(as_tensor(x)).detach().numpy(), network(x), rtol=1e-3, atol=1e-4)
    times = starts(path, network, module, x, repeats) if {"load", "first"} & set(tasks) else {}
    rows = [row_of(name, task, 1, each, x) for task, each in times.items() if task in tasks]
    model = attribution.load_model(path)
    runs = {"ours": ours(model, x, targets, batch_size=BATCH), "keras": with_tape(network, x, targets, network)}
    runs |= {"captum": captum(module, x, targets), "zennit": zennit(module, x, targets)} if module is not None else {}
    for task in [task for task in tasks if task in runs["keras"]]:
        contenders = {library: each[task] for library, each in runs.items() if task in each}
        maps = {library: run() for library, run in contenders.items()}  # the first calls trace and compile
        calls = {library: max(1, math.ceil(0.1 / seconds_of(run))) for library, run in contenders.items()}
        times = {library: [] for library in contenders}
        for _ in range(repeats):
            for library, run in contenders.items():
                times[library].append(seconds_of(run, calls[library]))
        row = row_of(name, task, len(x), times, x)
        model.counts.clear()
        contenders["ours"]()
        counts = {"F": model.counts["forward"] / len(x), "G": model.counts["backward"] / len(x)}
        row["passes"] = " + ".join(f"{count:g} {kind}" for kind, count in counts.items() if count)
        if task in SAME_MAP and (peers := [one for one in ("captum", "zennit") if one in maps]):
            theirs = maps[peers[0]][..., 0] if task == "occlusion" else maps[peers[0]]
            row["difference"] = f"{np.abs(maps['ours'] - theirs).max() / np.abs(theirs).max():.0e}"
        rows.append(row)
        print(row, file=sys.stderr, flush=True)
    return rows


def row_of(name: str, task: str, inputs: int, times: dict, x: np.ndarray) -> dict[str, Any]:
    """Return a row: medians over rounds of each library's CPU time by ours, and the spread of that of ``keras``."""
    row = {"network": name, "task": task, "inputs": inputs, "needed": passes_needed(task, x)}
    row["ms"] = f"{float(np.format_float_scientific(1000 * statistics.median(times['ours']) / inputs, 2)):g}"
    for library in [one for one in LIBRARIES if one in times]:
        ratios = [theirs / own for theirs, own in zip(times[library], times["ours"], strict=True)]
        row[library] = f"{statistics.median(ratios):.3g}"
        if library == "keras":
            row["spread"] = f"{min(ratios):.2f} to {max(ratios):.2f}"
    return row


def serve(name: str, path: str) -> None:
    """Print the CPU seconds of each task that standard input names with a number of calls, an empty line if unknown."""
    x = np.random.default_rng(0).random((INPUTS[name], *SHAPES[name]), dtype=np.float32)
    model, targets = attribution.load_model(path), np.arange(len(x)) % 10
    tasks = ours(model, x, targets) | {"rise": lambda: attribution.explain("rise", model, x, targets, masks=500)}
    tasks |= {"xrai": lambda: attribution.explain("xrai", model, x, targets, points=POINTS)} if x.ndim == 4 else {}
    tasks["load"] = lambda: attribution.load_model(path)
    for task, calls in map(str.split, sys.stdin):
        print(seconds_of(tasks[task], int(calls)) if task in tasks else "", flush=True)


def compare(name: str, path: str, before: str, tasks: list[str], repeats: int) -> list[dict[str, Any]]:
    """Return the rows of a network with the CPU time at an earlier commit by that of today; both take turns."""
    code = "import attribution, sys, time; attribution.load_model(sys.argv[1]); print(time.process_time())"
    trees = [{**os.environ, "PYTHONPATH": os.path.abspath(tree)} for tree in (ROOT, before)]
    program, pipe = [sys.executable, __file__, f"--child={name}:{path}"], subprocess.PIPE
    sides = [subprocess.Popen(program, env=tree, text=True, stdin=pipe, stdout=pipe) for tree in trees]

    def seconds(side, task, calls):
        if task == "start":
            folder = trees[side]["PYTHONPATH"]  # comes first in the path of modules
            return float(subprocess.check_output([sys.executable, "-c", code, path], env=trees[side], cwd=folder))
        print(task, calls, file=sides[side].stdin, flush=True)
        return float(sides[side].stdout.readline().strip() or "nan")

    rows = []
    for task in tasks:
        first = [1.0 if task == "start" else seconds(side, task, 1) for side in (0, 1)]  # traces and compiles
        calls = 1 if "nan" in map(str, first) else math.ceil(0.1 / min(first))
        ratios = [seconds(1, task, calls) / seconds(0, task, calls) for _ in range(repeats)]
        rows.append({"network": name, "task": task, "before": f"{statistics.median(ratios):.3g}"})
        print(rows[-1], file=sys.stderr, flush=True)
    for side in sides:
        side.communicate()
    return [row for row in rows if row["before"] != "nan"]


def tables(rows: list[dict[str, Any]]) -> dict[str, str]:
    """Return the parts of the page by a column's name: tables of tasks by networks."""
    found = collections.defaultdict(dict, {(row["network"], row["task"]): row for row in rows})

    def table(*columns):
        names = [name for name in INPUTS if any(found[name, task].get(columns[0]) for task in TITLES)]
        cells = [[" / ".join(filter(None, map(found[name, task].get, columns))) for name in names] for task in TITLES]
        lines = [[title, *each] for title, each in zip(TITLES.values(), cells, strict=True) if any(each)]
        return markdown_table(["task", *names], lines)

    parts = [["ms"], ["keras"], ["captum", "zennit"], ["before"]]
    return {columns[0]: table(*columns) for columns in parts}


def main(values: types.SimpleNamespace) -> None:
    """Measure the chosen networks and tasks, and write the CSV file and the tables."""
    if unknown := {*values.only, *values.networks} - {*TITLES, *INPUTS}:
        raise BadInput(f"no task or network '{min(unknown)}'; there are {listed([*TITLES, *INPUTS])}")
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    if values.child:
        return serve(*values.child.split(":"))
    table = pathlib.Path(values.page).with_suffix(".csv")
    stored = csv.DictReader(table.read_text("utf-8").splitlines() if table.exists() else [])
    blank = dict.fromkeys(COLUMNS, "")
    known = {(row["network"], row["task"]): {name: row.get(name, "") for name in COLUMNS} for row in stored}
    for name in values.networks or INPUTS:
        with tempfile.TemporaryDirectory() as path:
            network, tasks = built(name), values.only or list(TITLES)
            network.export(path, verbose=False)
            run = compare if values.before else measure
            rows = run(name, path, values.before or network, tasks, values.repeats)
        for row in rows:
            kept = known.get((name, row["task"]), blank)
            known[name, row["task"]] = (kept if values.before else blank | {"before": kept["before"]}) | row
        rows = [known[key] for key in itertools.product(INPUTS, TITLES) if key in known]
        atomic_write(table, "".join(",".join(map(str, line)) + "\n" for line in [COLUMNS, *map(dict.values, rows)]))
        replace_parts(pathlib.Path(values.page), tables(rows))


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
