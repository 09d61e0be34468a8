"""Write the table of docs/scale.md: peak memory and CPU time of few and of many inputs.

    python tools/performance/scale.py

Needs Apache Beam.

Cost: half an hour.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from attribution_benchmarks.core.tables import markdown_table  # noqa: E402
from tools.docs.page_parts import replace_parts  # noqa: E402

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


def memory_table(memory: dict) -> str:
    """Return what memory and time grow by."""
    body = []
    for title, found in memory.items():
        (few, (least, short)), (many, (most, long)) = found.items()
        cells = f"{int(few):,}", f"{int(many):,}", f"{least:,}", f"{most:,}", f"{short:.0f}", f"{long:.0f}"
        body.append([title, *cells])
    return markdown_table(["run", "few", "many", "MB of few", "MB of many", "CPU s of few", "CPU s of many"], body)


if __name__ == "__main__":
    replace_parts(ROOT / "docs" / "scale.md", {"memory": memory_table(peaks())})
