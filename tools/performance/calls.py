"""CPU time around the passes: single calls, first calls, recurrent networks, and methods of many passes.

    .venv-benchmarks/bin/python tools/performance/calls.py

writes five parts of RESULTS.md, or those of ``--parts``. The environment is that of ``speed.py``. Every ratio is the
median over rounds in one process on one thread, in which all contenders take turns. ``captum`` and ``zennit`` compute
the same on the same architecture in PyTorch.
"""

import functools
import gc
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import networks  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from absl import flags  # noqa: E402

import attribution  # noqa: E402
from attribution import cli  # noqa: E402
from attribution_benchmarks.core.tables import markdown_table  # noqa: E402

FLAGS = flags.FlagValues()
cli.define_common_flags(FLAGS, batch_size=32, output=str(pathlib.Path(__file__).with_name("RESULTS.md")))
flags.DEFINE_integer("repeats", 5, "rounds", lower_bound=1, flag_values=FLAGS)
flags.DEFINE_list(
    "parts", ["passes", "single", "first", "precision", "commands"], "tables to measure", flag_values=FLAGS
)

HOW = "CPU, one thread; ratios of CPU time, medians of {} rounds in which all take turns in one process."
# Saved network, inputs, method and parameters of the table beside the passes; KernelSHAP scores no group, too.
PASSES = [
    *(("svea/baseline", inputs, "rise", {"masks": 256}) for inputs in (1, 4, 16)),
    *(("bim/obj", inputs, "rise", {"masks": 64 // inputs}) for inputs in (1, 4, 16)),
    *(("svea/baseline", inputs, "kernel_shap", {"samples": 500}) for inputs in (1, 4, 16)),
]
SAMPLES = 8
GRADIENTS = {
    "gradient": {},
    "smoothgrad": {"samples": SAMPLES},
    "integrated_gradients": {"points": SAMPLES},
}
SINGLE = {"cnn1d": (*GRADIENTS, "grad_cam"), "small_resnet": ("gradient", "grad_cam"), "lstm": tuple(GRADIENTS)}
FIRST = {
    "cnn1d": ("gradient", "grad_cam", "lrp_epsilon_plus"),
    "resnet50": ("gradient", "grad_cam", "lrp_epsilon_plus"),
    "lstm": ("gradient", "lrp_epsilon", "deeplift"),
}
PRECISION = {name: ("gradient", "grad_cam", "lrp_alpha1beta0") for name in ("small_resnet", "resnet50")}
PRECISION["small_vit"] = ("gradient", "lrp_alpha1beta0", "lrp_attn")
COMMANDS = (
    "attribution.explain --model=saved_models/bim/obj --image=docs/pictures/zebra.jpg --output={cache}/maps.png",
    "svea.benchmark --methods=gradient",
)


def timed(run, *arguments):
    """Return a contender that runs a function."""
    return functools.partial(networks.seconds_of, run, *arguments)


def explained(method, model, inputs, **options):
    """Return a contender that explains by a method."""
    return timed(functools.partial(attribution.explain, method, model, inputs, 0, **options))


def in_turns(contenders, repeats):
    """Return the CPU seconds of each contender, a list over rounds; a contender returns those of one call."""
    rounds = [{name: run() for name, run in contenders.items()} for _ in range(repeats)]
    return {name: [one[name] for one in rounds] for name in contenders}


def ratio(seconds, name, to):
    """Return a median ratio as text; blank without one of the two."""
    if not {name, to} <= set(seconds):
        return ""
    return f"{statistics.median(one / other for one, other in zip(seconds[name], seconds[to], strict=True)):.2f}"


def peers(network):
    """Return the methods of captum and zennit that are measured, and the module; empty without PyTorch."""
    try:
        import captum.attr
        import torch
        import torch_networks
    except ImportError:
        return {}
    module = torch_networks.build(network)
    target = {"target": torch.tensor([0])}
    gradient, path = captum.attr.Saliency(module), captum.attr.IntegratedGradients(module)
    noisy = captum.attr.NoiseTunnel(gradient)
    few = {"nt_samples": SAMPLES, "nt_samples_batch_size": SAMPLES, "stdevs": 0.15}
    found = {
        "gradient": lambda x: gradient.attribute(x, abs=False, **target),
        "smoothgrad": lambda x: noisy.attribute(x, abs=False, **few, **target),
        "integrated_gradients": lambda x: path.attribute(x, n_steps=SAMPLES, **target),
    }
    if network.name != "lstm":
        last = module.features[-1] if hasattr(module, "features") else module[-4]
        cam = captum.attr.LayerGradCam(module, last)
        found["grad_cam"] = lambda x: cam.attribute(x, **target)
        found["lrp_epsilon_plus"] = functools.partial(by_zennit, module)
    return {name: functools.partial(lambda run, x: run(torch_networks.tensor(x)), run) for name, run in found.items()}


def by_zennit(module, x):
    import oracles_torch

    return oracles_torch.by_zennit(module, x, 0, oracles_torch.composites_of(1e-6)["epsilon_plus"], None)


def inputs_of(network, count=1):
    return np.random.default_rng(0).random((count, *network.input_shape[1:]), dtype=np.float32)


def passes_table(values):
    """Return methods of many passes beside their passes, on one array and on as many arrays as passes."""
    body = []
    for saved, count, method, options in PASSES:
        model = attribution.load_model(ROOT / "saved_models" / saved)
        ((name, spec),) = model.inputs.items()
        x = np.random.default_rng(0).normal(size=(count, *spec.shape[1:])).astype(np.float32)
        rows = count * (options.get("masks") or options["samples"] + 1)
        passes = -(-rows // values.batch_size)
        arrays = [np.resize(x + number, (-(-rows // passes), *spec.shape[1:])) for number in range(min(passes, 32))]

        def forward(chosen, model=model, name=name, passes=passes):
            for number in range(passes):
                model.forward({name: chosen[number % len(chosen)]})

        batch_size = max(count, values.batch_size)
        runs = {
            "ours": explained(method, model, x, batch_size=batch_size, **options),
            "one": timed(forward, arrays[:1]),
            "many": timed(forward, arrays),
        }
        in_turns(runs, 1)
        found = in_turns(runs, values.repeats)
        body.append(
            [f"`{method}`, {', '.join(f'{key}={value}' for key, value in options.items())}", saved, str(count),
             ratio(found, "ours", "one"), ratio(found, "ours", "many")]
        )  # fmt: skip
        print(body[-1], file=sys.stderr, flush=True)
    header = ["method", "network", "inputs", "ours / passes", "ours / passes on changing arrays"]
    how = HOW.format(values.repeats)
    return f"# RISE and KernelSHAP beside their passes\n\n{how}\n\n{markdown_table(header, body)}"


def single_table(values):
    """Return calls of one input, after the first."""
    body = []
    for name, methods in SINGLE.items():
        network = getattr(networks, name)()
        with tempfile.TemporaryDirectory() as directory:
            network.export(directory, verbose=False)
            model = attribution.load_model(directory)
        x, theirs = inputs_of(network), peers(network)
        for method in methods:
            options = GRADIENTS.get(method, {})
            runs = {"ours": explained(method, model, x, **options), "gradient": explained("gradient", model, x)}
            runs |= {"captum": timed(theirs[method], x)} if method in theirs else {}
            in_turns(runs, 2)
            found = in_turns(runs, 8 * values.repeats)
            own = f"{1000 * statistics.median(found['ours']):.2f}"
            body.append([name, f"`{method}`", own, *(ratio(found, "ours", other) for other in ("gradient", "captum"))])
            print(body[-1], file=sys.stderr, flush=True)
    header = ["network", "method", "CPU ms", "ours / gradient", "ours / captum"]
    how = f"{HOW.format(8 * values.repeats)} {SAMPLES} samples or points."
    return f"# Calls of one input\n\n{how}\n\n{markdown_table(header, body)}"


def first_table(values):
    """Return the first call of a method on a network that is loaded for it."""
    body = []
    for name, methods in FIRST.items():
        network = getattr(networks, name)()
        x = inputs_of(network)
        with tempfile.TemporaryDirectory() as directory:
            network.export(directory, verbose=False)
            for method in methods:
                found = first_calls(directory, network, method, x, values.repeats)
                own = f"{statistics.median(found['ours']):.2f}"
                ratios = [ratio(found, "ours", other) for other in ("live", "peer")]
                body.append([name, f"`{method}`", own, *ratios])
                print(body[-1], file=sys.stderr, flush=True)
    header = ["network", "method", "CPU s", "ours / live gradient", "ours / captum or zennit"]
    how = (
        f"{HOW.format(values.repeats)} Without loading; zennit's is that of LRP. The live gradient is a compiled one "
        "of the Keras network, the least that TensorFlow takes to trace, compile and run two passes."
    )
    return f"# First calls\n\n{how}\n\n{markdown_table(header, body)}"


def first_calls(directory, network, method, x, repeats):
    """Return the CPU seconds of each contender's first call, a list over rounds."""
    found = {}
    for _ in range(repeats):
        gc.collect()  # networks of equal graphs share what is compiled while one of them lives
        found.setdefault("ours", []).append(explained(method, attribution.load_model(directory), x)())
        found.setdefault("live", []).append(networks.seconds_of(networks.compiled_gradient(network), tf.constant(x)))
        if method in (theirs := peers(network)):
            found.setdefault("peer", []).append(networks.seconds_of(theirs[method], x))
    return found


def precision_table(values):
    """Return what bfloat16 saves and what it does to the maps."""
    body = []
    for name, methods in PRECISION.items():
        network = getattr(networks, name)()
        x = inputs_of(network)
        with tempfile.TemporaryDirectory() as directory:
            network.export(directory, verbose=False)
            model = attribution.load_model(directory)
        for method in methods:
            maps = {}

            def run(half, model=model, method=method, x=x, maps=maps):
                tf.config.optimizer.set_experimental_options({"auto_mixed_precision_onednn_bfloat16": half})
                maps[half] = attribution.explain(method, model, x, 0)

            runs = {half: timed(run, half) for half in (False, True)}
            in_turns(runs, 1)
            saved = ratio(in_turns(runs, values.repeats), True, False)
            single, half = maps[False].ravel(), maps[True].ravel()
            error, like = "map of zeros", ""
            if single.any():
                error = f"{abs(half - single).max() / abs(single).max():.0e}"
                like = f"{np.corrcoef(single, half)[0, 1]:.4f}"
            body.append([name, f"`{method}`", saved, error, like])
            print(body[-1], file=sys.stderr, flush=True)
    tf.config.optimizer.set_experimental_options({"auto_mixed_precision_onednn_bfloat16": False})
    header = ["network", "method", "bfloat16 / float32", "error by largest value", "correlation"]
    return f"# Reduced precision\n\n{HOW.format(values.repeats)}\n\n{markdown_table(header, body)}"


def commands_table(values):
    """Return commands as processes of their own, with an empty cache."""
    body = []
    for command in COMMANDS:
        costs = [process_cost(command) for _ in range(values.repeats)]
        seconds, peak = map(statistics.median, zip(*costs, strict=True))
        body.append([f"`{command.split(' --output')[0]}`", f"{seconds:.1f}", f"{peak:.0f}"])
        print(body[-1], file=sys.stderr, flush=True)
    how = f"One thread, an empty cache; medians of {values.repeats} processes."
    return f"# Commands\n\n{how}\n\n{markdown_table(['command', 'CPU s', 'MB'], body)}"


# A process that starts another one from a large process would report that one's memory.
STARTER = """
import os, subprocess, sys
started = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(started.pid, 0)
print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
sys.exit(bool(status))
"""


def process_cost(command):
    """Return the CPU seconds of a command's process and its peak in MB."""
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": cache}
        arguments = [sys.executable, "-c", STARTER, sys.executable, "-m", *command.format(cache=cache).split()]
        done = subprocess.run(arguments, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    seconds, peak = map(float, done.stdout.split())
    return seconds, peak


def main(values):
    """Measure and write the parts."""
    networks.use_one_thread()
    tables = {
        "passes": passes_table,
        "single": single_table,
        "first": first_table,
        "precision": precision_table,
        "commands": commands_table,
    }
    for part in values.parts:
        text = tables[part](values)
        print(text)
        networks.write_part(pathlib.Path(values.output), text)


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
