"""The commands that are attacked, each so small that it ends in seconds, and what they leave behind."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Sequence

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = ROOT / "saved_models"


@dataclasses.dataclass(frozen=True)
class Target:
    """A command that writes to one directory.

    Attributes
    ----------
    command
        What follows ``python``; ``{out}`` is the directory, ``{data}`` what ``prepare`` writes, ``{saved}`` the
        committed models.
    begins_with_data
        Whether the directory begins as a copy of that set.
    models
        Models that the directory begins with, as ``benchmark/model``.
    refuses
        What the error says of a run that finds its output complete; empty for a command that ends well then.
    trains
        Whether it trains networks, which Keras writes with the variables in any order: their answers are compared.
    checkpoint
        Name of the first checkpoint; kills are counted before and after it.
    varying
        Names of files that hold times, which are not compared.
    """

    command: str
    begins_with_data: bool = False
    models: Sequence[str] = ()
    refuses: str = ""
    trains: bool = False
    checkpoint: str = ""
    varying: Sequence[str] = ()

    def ends_well(self, code: int, said: str) -> bool:
        """Return whether a run that nothing disturbed ended as it must, whatever was there before."""
        complete = self.refuses and (self.refuses in said or "was made by another process meanwhile" in said)
        return code == 0 or bool(code == 2 and complete)


RELATION_NETWORK = (
    "scripts/train_relation_network.py --data_dir={data}/scenes5 --validation_dir={data}/scenes6 "
    "--checkpoint_dir={out}/checkpoints --output_dir={out}/network --rounds=1 --final_questions=simple --threads=1"
)
CONSTRUCT = ("scripts/construct_bim_dataset.py", "--drawn", "--num_train=1", "--num_val=2", "--jobs=2")
TARGETS = {
    "construct": Target(" ".join([*CONSTRUCT, "--num_train=0", "--num_val=1", "--data_dir={out}/data"])),
    "generate": Target(
        "scripts/generate_clevr_xai.py --num_images=6 --image_size=48x32 --samples=1 --num_workers=2 "
        "--output_dir={out}/data"
    ),
    "patches": Target("scripts/construct_delta_patch.py --steps=2 --data_dir={out}", begins_with_data=True),
    "svea": Target(
        "-m svea.benchmark --methods=gradient --scores_dir={out}/scores --output={out}/deep/er/table.json "
        "--input_scores={out}/values.json"
    ),
    "bim": Target(
        "-m bim.metrics --metrics=MCS,IDR --methods=gradient --num_imgs=12 --batch_size=4 --data_dir={data} "
        "--scores_dir={out}/scores --output={out}/table.csv --plot_dir={out}/a/b"
    ),
    "clevr_xai": Target(
        "-m clevr_xai.evaluate --methods=gradient --num_questions=6 --batch_size=2 --control_methods= "
        "--scores_dir={out}/scores --output={out}/table.md --save_maps={out}/maps"
    ),
    "serve": Target(
        "-m attribution_benchmarks.serving.serve --export_only --models={out}",
        models=("svea/baseline",),  # the bytes of a second one depend on whether one process exports both
    ),
    "train_bim": Target(
        "scripts/train_bim_models.py --models=obj,scene_only --epochs=0.05 --batch_size=8 --threads=1 "
        "--data_dir={data} --output_dir={out}",
        trains=True,
    ),
    "train_svea": Target("-m svea.baseline --epochs=1 --output_dir={out}/model", refuses="exists", trains=True),
    "train_relation_network": Target(
        f"{RELATION_NETWORK} --reading_steps=4 --seeing_steps=1 --small_steps=1 --following_steps=1 --final_steps=2 "
        "--checkpoint_steps=1",
        refuses="exists",
        trains=True,
        checkpoint="checkpoints/reading.npz",
        varying=("checkpoints/log.jsonl", "checkpoints/codes.npz"),
    ),
    "retrain_relation_network": Target(
        f"{RELATION_NETWORK} --start_from={{saved}}/clevr_xai/relation_network --seeing_steps=2 --final_steps=0 "
        "--checkpoint_steps=1",
        refuses="exists",
        trains=True,
        checkpoint="checkpoints/seeing.npz",
        varying=("checkpoints/log.jsonl",),
    ),
    "export": Target(
        "-m attribution.export --methods=gradient --model={saved}/svea/baseline --output={out}/served",
        refuses="exists",
    ),
}


def environment(cache: pathlib.Path) -> dict[str, str]:
    """Return the variables of a run: one thread, a cache and a temporary folder of its own."""
    threads = dict.fromkeys(("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS"), "1")
    own = {"PYTHONPATH": str(ROOT), "ATTRIBUTION_BENCHMARKS_CACHE": str(cache), "TF_CPP_MIN_LOG_LEVEL": "3"}
    return {**os.environ, **threads, **own, "TMPDIR": str(cache.parent)}


def prepare(names: Sequence[str], data: pathlib.Path) -> None:
    """Write what targets begin with: a small set of BIM's, or scenes of two seeds of CLEVR-XAI's."""
    chosen = [TARGETS[name] for name in names]
    data.mkdir()
    if any(target.begins_with_data or "--data_dir={data} " in target.command for target in chosen):
        arguments = [sys.executable, *CONSTRUCT, f"--data_dir={data}"]
        subprocess.run(arguments, cwd=ROOT, env=environment(data.parent / "cache"), check=True, capture_output=True)
    if any(target.command.startswith(RELATION_NETWORK) for target in chosen):
        embedded = ROOT / "clevr_xai" / "embedded"
        scenes = json.loads(gzip.decompress((embedded / "CLEVR-XAI_scenes.json.gz").read_bytes()))["scenes"][:2]
        for seed in (5, 6):
            directory = data / f"scenes{seed}"
            for folder, key in (("images", "image_filename"), ("masks", "mask_filename")):
                (directory / folder).mkdir(parents=True)
                for scene in scenes:
                    shutil.copy(embedded / folder / scene[key], directory / folder)
            content = {"info": {"seed": seed}, "scenes": scenes}
            (directory / "CLEVR-XAI_scenes.json").write_text(json.dumps(content))


def started(name: str, out: pathlib.Path, data: pathlib.Path, prepare=None, through: Sequence[str] = ()):
    """Start a target in a session of its own, so that it can be killed with all that it started.

    Parameters
    ----------
    name
        Of the target.
    out, data
        The directory it writes to, and a finished small set.
    prepare
        Called in the new process, before the command.
    through
        A program that runs the command, with its arguments.
    """
    target = TARGETS[name]
    arguments = [part.format(out=out, data=data, saved=MODELS) for part in target.command.split()]
    variables = environment(out.parent / "cache")
    return subprocess.Popen(
        [*through, sys.executable, *arguments], cwd=ROOT, env=variables, start_new_session=True, preexec_fn=prepare,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def content(directory: pathlib.Path, target: Target) -> dict[str, str]:
    """Return relative path -> hash of every file and empty folder that a target has written.

    Names of this directory are left aside, as manifests have them. The files of a trained network count as one, by
    their names and the network's answers.
    """
    found = {}
    for path in sorted(directory.rglob("*")):
        name = str(path.relative_to(directory))
        if path.is_file():
            data = path.read_bytes().replace(str(directory).encode(), b"OUT")
            found[name] = hashlib.sha256(data).hexdigest()
        elif not any(path.iterdir()):
            found[name] = "empty"
    found |= {name: "varies" for name in target.varying if name in found}
    if target.trains:
        for index in [name for name in found if name.endswith("/saved_model.pb")]:
            network = os.path.dirname(index)
            members = [name for name in found if name.startswith(network + "/")]
            found = {name: value for name, value in found.items() if name not in members}
            found[network] = f"{[name[len(network) :] for name in members]} {_answers(directory / network)}"
    return found


def _answers(network: pathlib.Path) -> str:
    """Return a hash of what each signature of a SavedModel answers to a ramp, or why it answers nothing."""
    import tensorflow as tf

    digest = hashlib.sha256()
    try:
        for name, signature in sorted(tf.saved_model.load(str(network)).signatures.items()):
            ramps = {}
            for key, spec in signature.structured_input_signature[1].items():
                shape = [size or 2 for size in spec.shape]
                last = 28.0 if spec.dtype.is_integer else 255.0  # words, and pixels
                ramps[key] = tf.cast(tf.reshape(tf.linspace(0.0, last, tf.reduce_prod(shape)), shape), spec.dtype)
            for output, value in sorted(signature(**ramps).items()):
                digest.update(f"{name} {output}".encode() + value.numpy().tobytes())
    except (OSError, ValueError, tf.errors.OpError) as error:
        return f"{type(error).__name__}: {error}"
    return digest.hexdigest()


def differing(first: dict[str, str], second: dict[str, str]) -> list[str]:
    """Return the paths of files that two directories do not have in common."""
    return sorted(path for path in {*first, *second} if first.get(path) != second.get(path))
