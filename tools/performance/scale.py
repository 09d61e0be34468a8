"""What an input costs by benchmark and method, and a run of the whole CLEVR-XAI release on many workers, simulated.

    python tools/performance/scale.py --measure     # a few minutes; writes SCALE.json
    python tools/performance/scale.py --memory      # peaks and CPU time of few and of many inputs; half an hour
    python tools/performance/scale.py --blocks=SIMPLE_DIR,COMPLEX_DIR     # reads the block times of two runs on Beam
    python tools/performance/scale.py               # writes the tables of docs/scale.md from that file

Costs are CPU seconds of one process, of inputs that are explained, after a first batch in which TensorFlow makes its
functions. The simulation draws the batches of every block from those that were measured, gives each block to the
worker that is free first, and adds what one process does alone: reading all inputs to plan, and merging.
"""

from __future__ import annotations

import heapq
import importlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402
from absl import flags  # noqa: E402

from attribution import cli  # noqa: E402
from attribution.files import atomic_write  # noqa: E402

KNOWN, PAGE = pathlib.Path(__file__).with_name("SCALE.json"), ROOT / "docs" / "scale.md"
FLAGS = flags.FlagValues()
cli.define_common_flags(FLAGS, seed=0)
flags.DEFINE_bool("measure", False, "measure what methods cost", flag_values=FLAGS)
flags.DEFINE_bool("memory", False, "measure the peak of few and many inputs; needs Apache Beam", flag_values=FLAGS)
flags.DEFINE_list("blocks", [], "directories of block files of the simple and the complex questions", flag_values=FLAGS)

# Door, work, flags, inputs of a batch, batches that are measured.
COSTS = {
    "SVEA, a signal": ("svea.benchmark", "saved_models/svea/baseline", ["--batch_size=500"], range(0, 1500), 500),
    "BIM, an image": ("bim.metrics", "obj-obj", ["--batch_size=4", "--nocontrols"], range(0, 12), 4),
    "CLEVR-XAI, a question": ("clevr_xai.evaluate", "simple", ["--batch_size=2", "--controls="], range(0, 6), 2),
}
RELEASE = {"simple": 39_761, "complex": 100_000}
WORKERS = (1, 8, 64, 256, 1000)
SIZES = (8, 64, 512)  # inputs of a block


def costs_of(door: str, name: str, given: list[str], items: range, rows: int) -> dict[str, float]:
    """Return method -> CPU seconds of an input that is explained."""
    module = importlib.import_module(door)
    methods = module.FLAGS["methods"].default
    found = {}
    for method in methods:
        module.FLAGS.unparse_flags()
        module.FLAGS([door, f"--methods={method}", *given])
        work = module.works(module.FLAGS)(name)
        seconds = explained = 0
        for start in range(0, len(items), rows):
            began = time.process_time()
            records = work.compute(list(items[start : start + rows]), {}, 0).results
            if start:  # the first batch makes TensorFlow's functions
                seconds += time.process_time() - began
                explained += len(next(records[series] for series in reversed(records)))
        found[method] = seconds / explained
        print(f"{door} {method}: {found[method]:.3g} CPU seconds an input", file=sys.stderr)
    return found


def alone() -> dict[str, float]:
    """Return seconds that one process needs to read a question for the plan, and to merge the numbers of one."""
    from attribution_benchmarks.core.store import ScoreStore
    from clevr_xai.answering import Questions
    from clevr_xai.dataset import Dataset

    dataset = Dataset("simple")
    questions = Questions(dataset, range(len(dataset)))
    began = time.perf_counter()
    for part in questions.batches(8):
        assert part.names
    reading = (time.perf_counter() - began) / len(questions.rows)
    with tempfile.TemporaryDirectory() as directory:
        series = [ScoreStore(directory).series(label=number) for number in range(30)]
        record = " ".join(f"{number:.9g}" for number in np.random.default_rng(0).random(40))
        began = time.perf_counter()
        for block in range(10):
            for one in series:
                one.append({f"{block * 64 + row} 0123456789abcdef": record for row in range(64)})
        merging = (time.perf_counter() - began) / (10 * len(series))
    return {"reading_a_question": reading, "merging_a_series_of_a_block": merging, "series": len(series)}


MANY = '''
"""Many small inputs, a network that sums them, and masks."""

import numpy as np

from attribution_benchmarks.core.definition import Benchmark
from attribution_benchmarks.core.controls import RANDOM, UNIFORM
from attribution_benchmarks.core.examples import Examples
from attribution_benchmarks.metrics.registry import METRIC_REGISTRY


def examples(count, seed):
    pictures = np.random.default_rng(seed).random((count, 12, 12, 1)).astype(np.float32)
    return Examples(pictures, masks={"half": np.arange(12)[None, :, None] < np.full((count, 1, 12), 6)})


MANY = Benchmark(
    name="many", title="Many", metrics=(METRIC_REGISTRY["pointing_game"],),
    controls=(UNIFORM, RANDOM), methods=("gradient", "gradient_x_input"), examples=examples,
)
'''
NETWORK = """
import sys
import tensorflow as tf

class Network(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None, 12, 12, 1], tf.float32, name="picture")])
    def serve(self, picture):
        left = tf.reduce_sum(tf.tanh(picture[:, :, :6]), axis=[1, 2, 3])
        return {"logits": tf.stack([left, -left], axis=1)}

network = Network()
tf.saved_model.save(network, sys.argv[1], signatures=network.serve)
"""
PEAK = """
import importlib, importlib.util, resource, sys, time
from attribution.cli import execute
door = sys.argv[1]
if door.endswith(".py"):
    specification = importlib.util.spec_from_file_location("door", door)
    command = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(command)
else:
    command = importlib.import_module(door)
code = execute(command.main, command.FLAGS, "", sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, round(time.process_time(), 1), code)
"""
MANY_DOOR = "attribution_benchmarks.core.evaluate"
SMALL = "--benchmark={folder}/many.py:MANY --model={folder}/network --batch_size=500 --num_imgs={number}"
ASKED = "--methods=gradient --controls=uniform --data_dir={folder}/questions{number} --num_questions=all"
DRAWN = "--drawn --num_train=0 --num_val={hundreds} --data_dir={folder}/sets{number}"
RENDERED = "--num_images={number} --image_size=48x32 --samples=1 --output_dir={folder}/rendered{number}"
# What is done; door, flags, how many inputs. Scores and block files go to folders of their own.
GROWTH = {
    "12 x 12 pixels, two methods and two controls": (MANY_DOOR, SMALL, (100, 10_000)),
    "the same, `--runner=beam`": (MANY_DOOR, f"{SMALL} --runner=beam", (100, 10_000)),
    "CLEVR-XAI's questions, gradient": ("clevr_xai.evaluate", ASKED, (100, 10_000)),
    "BIM's images, drawn and pasted": ("scripts/construct_bim_dataset.py", f"{DRAWN} --jobs=1", (100, 10_000)),
    "the same on Beam": ("scripts/construct_bim_dataset.py", f"{DRAWN} --runner=beam", (100, 10_000)),
    "CLEVR-XAI's images, with all questions": (
        "scripts/generate_clevr_xai.py",
        f"{RENDERED} --num_workers=1",
        (100, 1_000),
    ),
}


def ask_again(folder: pathlib.Path, count: int) -> None:
    """Write so many simple questions about images that are those of the embedded set, under other names."""
    from clevr_xai import layout
    from clevr_xai.dataset import EMBEDDED, Dataset

    data = Dataset("simple")
    asked: dict[str, list[dict]] = {}
    for question in data.questions:
        asked.setdefault(question["image_filename"], []).append(question)
    (folder / layout.IMAGES).mkdir(parents=True)
    (folder / layout.MASKS).mkdir()
    known, scenes, questions = list(data.scenes.values()), [], []
    while len(questions) < count:
        scene = known[len(scenes) % len(known)]
        name = f"CLEVR_unique_{len(scenes):06d}.png"
        for kind, key in ((layout.IMAGES, "image_filename"), (layout.MASKS, "mask_filename")):
            (folder / kind / name).symlink_to((EMBEDDED / kind / scene[key]).resolve())
        for question in asked.get(scene["image_filename"], ()):
            questions.append(question | {"image_filename": name, "question_index": len(questions)})
        scenes.append(scene | {"image_filename": name, "mask_filename": name})
    layout.write_json(folder / layout.SCENES, {"scenes": scenes})
    layout.write_json(folder / layout.QUESTIONS.format(kind="simple"), {"questions": questions[:count]})


def peaks() -> dict[str, dict[str, list[float]]]:
    """Return what is done -> number of inputs -> peak of resident memory in MB and CPU seconds of the process."""
    found: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-c", NETWORK, f"{folder}/network"], check=True, capture_output=True)
        pathlib.Path(folder, "many.py").write_text(MANY)
        for number in (100, 10_000):
            ask_again(pathlib.Path(folder, f"questions{number}"), number)
        for place, (title, (door, given, numbers)) in enumerate(GROWTH.items()):
            for number in numbers:
                own = pathlib.Path(folder, f"{place}-{number}")
                options = given.format(folder=folder, number=number, hundreds=number // 100).split()
                if "scripts" not in door:
                    options.append(f"--scores_dir={own}")
                elif "beam" in given:
                    options = [one.replace(f"{number}", f"{number}-beam") if "_dir=" in one else one for one in options]
                done = subprocess.run(
                    [sys.executable, "-c", PEAK, door, *options], check=True, capture_output=True, text=True, cwd=ROOT,
                    env={**os.environ, "ATTRIBUTION_BENCHMARKS_CACHE": str(own / "cache")},
                )  # fmt: skip
                peak, seconds, code = done.stdout.splitlines()[-1].split()
                assert code == "0", done.stderr
                found.setdefault(title, {})[str(number)] = [int(peak), float(seconds)]
                print(f"{title}, {number}: {peak} MB, {seconds} CPU seconds", file=sys.stderr)
    return found


def memory_table(known: dict) -> str:
    """Return what memory and time grow by."""
    lines = [
        "| run | few | many | MB of few | MB of many | CPU s of few | CPU s of many |",
        "|---|---|---|---|---|---|---|",
    ]
    for title, found in known["memory"].items():
        (few, (least, short)), (many, (most, long)) = found.items()
        cells = [title, f"{int(few):,}", f"{int(many):,}", f"{least:,}", f"{most:,}", f"{short:.0f}", f"{long:.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def batches_of(directory: str) -> dict:
    """Return inputs and CPU seconds of the blocks of a run, which were of one batch each."""
    files = sorted(pathlib.Path(directory).rglob("[0-9]*.jsonl"))
    headers = [json.loads(path.read_text().partition("\n")[0])["statistics"] for path in files]
    return {name: [statistics[name] for statistics in headers] for name in ("inputs", "cpu_seconds")}


def simulated(known: dict, workers: int, size: int, seed: int) -> dict[str, float]:
    """Return hours of a run over the whole release with so many workers and inputs of a block."""
    draw = np.random.default_rng([seed, workers, size])
    times, questions, series_of_blocks = [], 0, 0.0
    for kind, count in RELEASE.items():
        measured = known["batches"][kind]
        each = np.array(measured["cpu_seconds"]) / np.array(measured["inputs"])
        rows = measured["inputs"][0]
        blocks = -(-count // size)
        times.append(draw.choice(each, (blocks, size // rows)).sum(axis=1) * rows)
        questions += count
        series_of_blocks += blocks * known["alone"]["series"]
    blocks = np.concatenate(times)
    free = [known["loading"]] * workers  # each worker loads the model first
    for seconds in blocks:
        heapq.heapreplace(free, free[0] + seconds)
    parallel = max(free)
    # Every question is read to plan and once more for the tables; a series of a block is one write.
    serial = 2 * questions * known["alone"]["reading_a_question"]
    serial += series_of_blocks * known["alone"]["merging_a_series_of_a_block"]
    return {
        "block": float(blocks.mean()) / 60, "computing": parallel / 3600, "alone": serial / 3600,
        "whole": (parallel + serial) / 3600, "busy": float(blocks.sum()) / (workers * (parallel + serial)),
        "work": float(blocks.sum()) / 3600, "blocks": len(blocks),
    }  # fmt: skip


def costs_table(known: dict) -> str:
    """Return the table of costs."""
    lines = ["| method | " + " | ".join(known["costs"]) + " |", "|---|" + "---|" * len(known["costs"])]
    for method in dict.fromkeys(method for found in known["costs"].values() for method in found):
        cells = [f"{found[method]:.2g}" if method in found else "–" for found in known["costs"].values()]
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def simulation_table(known: dict, seed: int) -> str:
    """Return the table of the simulation, and what it says."""
    columns = ("workers", "inputs of a block", "blocks", "minutes of a block", "hours of computing", "hours alone",
               "hours in all", "busy")  # fmt: skip
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for size in SIZES:
        for workers in WORKERS:
            found = simulated(known, workers, size, seed)
            lines.append(
                f"| {workers:,} | {size} | {found['blocks']:,} | {found['block']:.1f} | {found['computing']:,.1f} | "
                f"{found['alone']:.1f} | {found['whole']:,.1f} | {100 * found['busy']:.0f} % |"
            )
    middle = simulated(known, 1000, SIZES[1], seed)
    half = middle["work"] / middle["alone"]
    inputs = {kind: sum(found["inputs"]) for kind, found in known["batches"].items()}
    lines += [
        "",
        f"The whole release takes {middle['work'] / 24:,.0f} CPU days on this machine, extrapolated from "
        f"{inputs['simple']} simple and {inputs['complex']} complex questions. With blocks of {SIZES[1]}, the work of "
        f"the command's own process takes {middle['alone']:.1f} hours. With {half:,.0f} workers this is half of the "
        "total time, so more workers help little.",
    ]
    return "\n".join(lines)


def rendered(known: dict, page: str, seed: int = 0) -> str:
    """Return the page with both tables in it."""
    tables = {"costs": costs_table(known), "simulation": simulation_table(known, seed), "memory": memory_table(known)}
    for name, table in tables.items():
        pattern = rf"(<!-- {name}: [^\n]*-->\n).*?(<!-- /{name} -->)"
        page, number = re.subn(pattern, lambda found, table=table: f"{found[1]}{table}\n{found[2]}", page, flags=re.S)
        assert number == 1, name
    return page


def main(flag_values: flags.FlagValues) -> None:
    """Measure what is asked for, and write the page."""
    known = json.loads(KNOWN.read_text()) if KNOWN.exists() else {}
    if flag_values.measure:
        began = time.process_time()
        importlib.import_module("clevr_xai.answering").Answering(
            ROOT / "saved_models" / "clevr_xai" / "relation_network"
        )
        known["loading"] = time.process_time() - began
        known["alone"] = alone()
        known["costs"] = {title: costs_of(*what) for title, what in COSTS.items()}
    if flag_values.memory:
        known["memory"] = peaks()
    if flag_values.blocks:
        known["batches"] = dict(zip(RELEASE, map(batches_of, flag_values.blocks), strict=True))
    atomic_write(KNOWN, json.dumps(known, indent=1) + "\n")
    if {"costs", "batches", "memory"} <= set(known):
        atomic_write(PAGE, rendered(known, PAGE.read_text("utf-8"), flag_values.seed))


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
