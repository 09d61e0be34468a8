"""Write a benchmark's networks and inputs for PyTorch alone, without TensorFlow and this package.

    attribution-benchmarks export-torch --benchmark=svea --output_dir=D

writes D/network.py, the networks as modules; their weights, D/NAME.safetensors; the explained inputs with their classes
and file names, D/NAME.npz; and D/example.py, which writes maps. The maps are then scored by

    attribution-benchmarks svea --precomputed_maps=D/maps

Cost: the network's scores of all inputs, 6 CPU seconds for svea and 14 for clevr_xai.
"""

from __future__ import annotations

import itertools
import pathlib
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
from absl import flags

from attribution import Method, cli
from attribution.errors import BadInput, installation, print_line
from attribution.files import atomic_write, check_directory, make_directory
from attribution_benchmarks.core.evaluation import load, prepare
from attribution_benchmarks.core.evaluator import Evaluator
from attribution_benchmarks.core.registry import benchmark_named
from attribution_benchmarks.core.store import ScoreStore

FLAGS = flags.FlagValues()
flags.DEFINE_string("benchmark", "svea", "the benchmark", flag_values=FLAGS)
flags.DEFINE_string("output_dir", "", "directory to write to", flag_values=FLAGS)

_NEED_NETWORK = ("exact", "xai_units")
_EXAMPLE = '''"""Write maps of {title} by a method in PyTorch."""
import pathlib

import network
import numpy as np
import torch
from safetensors.torch import load_file

NETWORKS = {networks}


def explain(model, inputs, targets, *words):  # your method
    inputs.requires_grad_()
    scores = model(inputs, *words).gather(1, targets[:, None])
    return torch.autograd.grad(scores.sum(), inputs)[0] * inputs


for name, model in NETWORKS.items():
    model.load_state_dict(load_file(f"{{name}}.safetensors"))
    data = np.load(f"{{name}}.npz")
    arrays = [torch.from_numpy(data[key]).split(16) for key in ("inputs", "targets", "words") if key in data]
    maps = torch.cat([explain(model.eval(), *batch) for batch in zip(*arrays)]).detach().numpy()
    for file, one in zip(data["files"], maps):
        path = pathlib.Path("maps", "my_method", f"{{file}}.npy")
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, one{summed})
'''


def main(flag_values: flags.FlagValues) -> None:
    """Write the files."""
    check_directory("output_dir", flag_values.output_dir)
    if not flag_values.output_dir:
        raise BadInput("no directory; name one with --output_dir=")
    try:
        from safetensors.torch import save_file
    except ImportError as error:
        raise BadInput(f"export-torch needs torch and safetensors: {installation('torch')}") from error
    from attribution_benchmarks.torch import networks

    directory = make_directory(flag_values.output_dir)
    place, codes, summed = flag_values.benchmark, {}, ""
    if place in _NEED_NETWORK:
        raise BadInput(
            f"--benchmark={place}: its metrics query the network, which --precomputed_maps does not load; score the "
            "method with --methods=torch:my_method.py:NAME"
        )
    benchmark = benchmark_named(place, "--benchmark")
    for name, twin, arrays in _exported(benchmark, place):
        codes[name] = twin.code
        summed = "" if twin.logits.channels_first else ".sum(axis=-1)"  # a map of the tokens
        save_file(
            {key: value.contiguous() for key, value in twin.state_dict().items()}, directory / f"{name}.safetensors"
        )
        columns: dict[str, Any] = {**arrays}
        np.savez_compressed(directory / f"{name}.npz", **columns)
    lines = "".join(f'    "{name}": {code},\n' for name, code in codes.items())
    text = _EXAMPLE.format(title=benchmark.title, networks=f"{{\n{lines}}}", summed=summed)
    atomic_write(directory / "example.py", text)
    atomic_write(directory / "network.py", pathlib.Path(networks.__file__).read_text("utf-8"))
    metrics = {metric.name: metric.measure for metric in benchmark.metrics if metric.name in benchmark.default_metrics}
    usable = [name for name, measure in metrics.items() if not getattr(measure, "needs_explainer", False)]
    chosen = f" --metrics={','.join(usable)}" if len(usable) < len(metrics) else ""  # others need maps of other inputs
    print_line(
        f"wrote {len(codes)} network{'s' * (len(codes) > 1)} to {directory}; run 'python example.py' there, then: "
        f"attribution-benchmarks {place} --precomputed_maps={directory}/maps{chosen}"
    )


def _exported(benchmark: Any, place: str) -> Iterator[tuple[str, Any, dict[str, np.ndarray]]]:
    """Yield the name and module of each network of a benchmark, and its inputs as arrays."""
    from attribution_benchmarks.torch import twins

    asked: list[tuple[Any, dict[str, np.ndarray]]] = []
    files: list[str] = []

    def record(queries: Any) -> np.ndarray:
        twin, inputs, words = twins.of(queries)
        arrays = {"inputs": inputs.numpy(), "targets": queries.targets.astype(np.int64)}
        arrays |= {} if words is None else {"words": words.numpy()}
        asked.append((twin, arrays))
        return np.zeros_like(queries.inputs)

    maps: Any = types.SimpleNamespace(has=lambda *_: False, save=lambda method, file, *_: files.append(file))
    run = prepare(benchmark, {"record": Method("record", "record", record)}, store=ScoreStore(None), place=place)
    for one in itertools.chain(*load(run).measurements()):
        asked.clear()
        files.clear()
        Evaluator(one.explainer, [], {}, [], None, one.prediction_filter, maps, one.inputs).evaluate()
        if asked:
            twin, first = asked[0]
            columns = {key: _joined([arrays[key] for _, arrays in asked], key == "words") for key in first}
            yield pathlib.PurePath(one.name).name, twin, {**columns, "files": np.array(files)}


def _joined(parts: list[np.ndarray], padded: bool) -> np.ndarray:
    """Return the rows of all batches; words, whose number differs between batches, are padded with zeros."""
    most = max(part.shape[1] for part in parts) if padded else 0
    return np.concatenate([np.pad(each, ((0, 0), (0, most - each.shape[1]))) if padded else each for each in parts])


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
