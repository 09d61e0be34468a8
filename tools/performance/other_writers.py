"""CPU time of loading files of JAX and PyTorch and of their maps, beside TensorFlow's file of the same network.

    python tools/performance/other_writers.py --family=ResNet50V2 --folder=data/zoo/files --torch_python=PYTHON

writes a part of tools/performance/RESULTS.md. The files are written by ``tools.model_zoo.writers`` unless they are in
the folder. A process's first load is measured in processes of their own; everything else in one process, the files in
turns, on one thread.
"""

import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from absl import flags  # noqa: E402

from attribution import cli  # noqa: E402
from attribution.files import CACHE_VARIABLE  # noqa: E402

FLAGS = flags.FlagValues()
flags.DEFINE_string("family", "ResNet50V2", "family of the model zoo", flag_values=FLAGS)
flags.DEFINE_string("folder", str(ROOT / "data" / "zoo" / "files"), "folder of files by family", flag_values=FLAGS)
flags.DEFINE_string("torch_python", "", "Python that has torch_xla; this one by default", flag_values=FLAGS)
flags.DEFINE_integer("repeats", 3, "rounds", lower_bound=1, flag_values=FLAGS)
flags.DEFINE_string("output", str(pathlib.Path(__file__).with_name("RESULTS.md")), "file to write", flag_values=FLAGS)
flags.DEFINE_string("child", "", "print the CPU seconds of a process's first load of a file", flag_values=FLAGS)

METHODS = ("gradient", "guided_backprop", "grad_cam", "lrp_epsilon_plus", "lrp_alpha1beta0")


def first_load(path, cache):
    """Return the CPU seconds of a new process's first load of a file with some cache, without the imports."""
    command, environment = [sys.executable, __file__, f"--child={path}"], {**os.environ, CACHE_VARIABLE: cache}
    return float(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout)


def medians(rounds):
    """Return the median over rounds, each a number by writer."""
    return {writer: statistics.median(one[writer] for one in rounds) for writer in rounds[0]}


def load_times(paths, repeats):
    """Return the CPU seconds of a load by kind and writer, medians of rounds in which the files take turns."""
    import networks

    import attribution

    fresh, known = [], []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as cache:
            fresh.append({title: first_load(path, cache) for title, path in paths.items()})
            known.append({title: first_load(path, cache) for title, path in paths.items()})
    loads = [
        {title: networks.seconds_of(attribution.load_model, path) for title, path in paths.items()}
        for _ in range(repeats + 1)
    ]
    return {
        "a file's first load, s": medians(fresh),
        "another process's first load, s": medians(known),
        "a further load, s": medians(loads[1:]),
    }


def map_times(paths, family, repeats):
    """Return CPU seconds of a map by method and writer, medians of rounds in which the files take turns, and its rows.

    PyTorch's file has a fixed number of rows.
    """
    import networks

    import attribution

    models = {writer: attribution.load_model(path) for writer, path in paths.items()}
    rows = models["PyTorch"].batch_size(1)
    inputs = family.inputs(rows)

    def explained(method, model):
        (name,) = model.inputs
        return attribution.explain(method, model, {name: inputs}, 0, batch_size=len(inputs))

    found = {}
    for method in METHODS:
        for model in models.values():
            explained(method, model)
        taken = [
            {writer: networks.seconds_of(explained, method, model) for writer, model in models.items()}
            for _ in range(repeats)
        ]
        found[method] = medians(taken)
    return found, rows


def main(values):
    """Measure the files and write the part."""
    import networks

    import attribution

    version = networks.use_one_thread()
    if values.child:
        print(networks.seconds_of(attribution.load_model, values.child))
        return
    from tools.model_zoo.families import FAMILIES

    from attribution_benchmarks.core.tables import markdown_table
    from tools.model_zoo import writers

    family, folder = FAMILIES[values.family], pathlib.Path(values.folder) / values.family
    folder.mkdir(parents=True, exist_ok=True)
    named = {"TensorFlow": "tensorflow"} | {title: writer for writer, title in writers.WRITERS.items()}
    python = {"torch": values.torch_python}
    paths = {title: writers.write(family, one, folder, python.get(one, "")) for title, one in named.items()}
    rows = load_times(paths, values.repeats)
    times, count = map_times(paths, family, values.repeats)
    rows |= {f"`{method}`, multiple": {t: one[t] / one["TensorFlow"] for t in one} for method, one in times.items()}
    text = (
        f"# Files of JAX and PyTorch\n\n{values.family} at 64x64, TensorFlow {version}, one thread, medians of "
        f"{values.repeats} rounds: CPU seconds of loading, and of maps of {count} images as multiples of the time from "
        "TensorFlow's file. A file's first load compares the translation with the module, which XLA compiles for "
        "that; later ones by the same code do not.\n\n"
    )
    body = [[name, *(f"{row[title]:.2f}" for title in paths)] for name, row in rows.items()]
    networks.write_part(pathlib.Path(values.output), text + markdown_table(["", *paths], body))


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
