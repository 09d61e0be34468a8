"""Every bad or hostile input of the table ends in one line and exit code 2, in time, and leaves nothing behind.

The files of a case are written before, each by content or by a function of its path. ``{set}`` in the arguments is a
copy of a small set of BIM's, in which files may be replaced; ``MODEL`` is a network of CLEVR-XAI's.
"""

import importlib
import io
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest

from attribution import cli

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = ROOT / "saved_models"
SECONDS = 240  # for one case, which is seconds on an idle machine
MODULES = {
    "svea": "svea.benchmark", "bim": "bim.metrics", "clevr_xai": "clevr_xai.evaluate", "tcav": "bim.run_tcav",
    "construct": "scripts.construct_bim_dataset", "generate": "scripts.generate_clevr_xai",
    "export": "attribution.export.__main__", "score": "attribution_benchmarks.score_methods",
    "report": "attribution_benchmarks.report.reproduce", "explain": "attribution.explain.__main__",
}  # fmt: skip
DEEP = b"[" * 100_000
HUGE = 10**40


def npy_promising(shape: str) -> bytes:
    """Return an .npy file whose header promises more than it holds."""
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + header.ljust(117).encode() + b"\n"


def masks(shapes) -> bytes:
    """Return a file of BIM's masks of some shapes, without a pixel that is set."""
    return npz(bits=np.zeros(10, np.uint8), shapes=np.array(shapes))


def npz(**arrays) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def png_of(width: int, height: int) -> bytes:
    """Return a PNG file whose header has a size, without pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def coco(**change) -> bytes:
    """Return COCO annotations of ten classes, one image each, with some values changed."""
    names = ("backpack", "bird", "dog", "elephant", "kite", "pizza", "stop sign", "toilet", "truck", "zebra")
    document = {"images": [], "annotations": [], "categories": []}
    for number, name in enumerate(names, start=1):
        document["categories"].append({"id": number, "name": name})
        image = {"id": number, "file_name": f"{number}.jpg", "height": 20, "width": 30}
        instance = {"id": number, "image_id": number, "category_id": number, "area": 9, "iscrowd": 0}
        instance["segmentation"] = [[1, 1, 9, 1, 9, 9]]
        document["images"].append({**image, **{key: change[key] for key in change if key in image}})
        document["annotations"].append({**instance, **{key: change[key] for key in change if key in instance}})
    return json.dumps(document).encode()


def question(**change) -> bytes:
    """Return a file of one question about the scene below."""
    node = {"type": "scene", "inputs": [], "_output": [0]}
    entry = {"question": "What?", "answer": "red", "program": [node], "image_filename": "a.png", "question_index": 0}
    return json.dumps({"questions": [{**entry, **change}]}).encode()


def program(**node) -> bytes:
    return question(program=[{"inputs": [], "_output": [0], **node}])


def scene(**change) -> bytes:
    """Return a file of one scene with one object."""
    item = {"mask_color": [0.1, 0.2, 0.3], "color": "red", "size": "large", "shape": "cube", "material": "metal"}
    entry = {"image_filename": "a.png", "mask_filename": "a.png", "objects": [item]}
    return json.dumps({"scenes": [{**entry, **change}]}).encode()


PIPE = os.mkfifo
PLACES = {"file": b"", "pipe.png": PIPE, "folder.png": os.mkdir, "x.png": png_of(128, 128)}
QUESTIONS, SCENES = "data/CLEVR-XAI_simple_questions.json", "data/CLEVR-XAI_scenes.json"
CLEVR = {QUESTIONS: question(), SCENES: scene(), "data/images/a.png": png_of(9, 9), "data/masks/a.png": png_of(9, 9)}
ASK = "--data_dir=data --methods=gradient --num_questions=all"
CONSTRUCT = "--coco_annotations=coco.json --coco_dir=. --data_dir=out --num_train=0 --num_val=1"
SCORE = "--data_dir={set} --methods=gradient --num_imgs=2 --metrics=MCS"
EXPLAIN = f"--model={MODELS}/bim/obj --preprocessing=0..1 --methods=gradient --image=x.png"
# Command, what its command line begins with, and bad flags.
FLAGS = [
    ("svea", "", ["argument", "--seed=nan", "--model=missing", "--methods=nothing", "--methods=no/such.py:f"]),
    ("svea", "", ["--output=a\x1b[2J.xlsx", "--output=/proc/x.json", "--scores_dir=file/below"]),
    ("bim", SCORE, ["--num_imgs=²", "--save_maps=/proc/new", "--models=obj=missing", "--server=ftp://x"]),
    ("bim", f"{SCORE} --server=http://127.0.0.1:1", ["--deadline=inf"]),
    ("clevr_xai", "", ["--num_questions=1.5"]),
    ("tcav", "--data_dir={set} --target=dog", ["--model=missing"]),
    ("score", "--methods=gradient", ["--benchmarks=os:getcwd"]),
    ("generate", "--output_dir=out", ["--image_size=100x", "--samples=0"]),
    ("construct", "", ["--data_dir=file/below"]),
    ("report", "", ["--output_dir=file"]),
    ("explain", EXPLAIN, ["--output=pipe.png", "--output=folder.png", "--output=maps.gif", "--image=no\u202egnp.png"]),
]
# Command, arguments, file, and bad contents by what they are.
FILES = [
    ("export", "--model=model --output=out", "model/saved_model.pb", {"cut off": b"\x08\x01\x12\xff\xff\xff"}),
    ("construct", CONSTRUCT, "coco.json", {
        "no lists": b"{}", "utf-16": coco().decode().encode("utf-16"), "image missing": coco(image_id=77),
        "name outside": coco(file_name="../../etc/passwd"), "area NaN": coco(area=float("nan")),
        "two points": coco(segmentation=[[1, 1, 2, 2]]),
    }),
    ("construct", "--drawn --data_dir={set}", "{set}/construction.json", {"binary": bytes(9)}),
    ("bim", SCORE, "{set}/obj/val_mask.npz", {
        "objects": b"\x80\x04K\x01.", "other names": npz(x=np.zeros(1, np.uint8)), "one mask": masks([[2, 2]]),
        "shapes huge": masks([[1 << 40, 2]]),
    }),
    ("bim", SCORE, "{set}/obj/val_loc.txt", {what: ("every value", what) for what in ("9,9,3,3", "a,b,c,d")}),
    ("bim", SCORE, "{set}/obj/val.txt", {"a pipe": PIPE, "ten": ("every value", "10")}),
    ("bim", SCORE, "{set}/obj/val/*.jpg", {"cut off": png_of(128, 128)}),
    ("clevr_xai", ASK, "data/images/a.png", {"of terabytes": png_of(1 << 30, 1 << 30)}),
    ("clevr_xai", ASK, "data/masks/a.png", {"text": b"x"}),
    ("clevr_xai", ASK, QUESTIONS, {
        "deep": DEEP, "entries text": b'{"questions": ["x"]}', "index huge": question(question_index=HUGE),
        "image outside": question(image_filename="../../etc/passwd"), "no program": question(program=[]),
        "cycle": program(type="union", inputs=[0]), "output beyond": program(type="filter_color", _output=[9]),
    }),
    ("clevr_xai", ASK, SCENES, {
        "list": b"[]", "mask outside": scene(mask_filename="../../../etc/passwd"), "objects text": scene(objects=["x"]),
    }),
    ("svea", "--methods=gradient --scores_dir=scores", "scores/scores.sqlite", {"a pipe": PIPE}),
    ("score", "--methods=gradient --benchmarks=exact --metrics=pipe.py:f", "pipe.py", {"a pipe": PIPE}),
    ("report", "--output_dir=out", "out/work/lock", {"a pipe": PIPE}),
    ("explain", EXPLAIN, "x.png", {"of terabytes": png_of(1 << 30, 1 << 30)}),
    ("explain", EXPLAIN.replace("png", "npy"), "x.npy", {"promising": npy_promising("(1000000, 1000000)")}),
    ("explain", f"{EXPLAIN} --class_names=names.json", "names.json", {"deep": DEEP}),
]  # fmt: skip


def cases() -> dict[str, tuple]:
    """Return command, arguments, files and a word of the error of each case by its name."""
    found = {}
    for command, begin, flags in FLAGS:
        for flag in flags:
            word = re.sub("^--(methods|image|precomputed_maps)=.*|--|=.*", "", flag)  # the error names the flag
            found[f"{command} {flag[:40]}"] = (command, [*begin.split(), flag], PLACES, word)
    for command, arguments, file, contents in FILES:
        around = {"clevr_xai": CLEVR, "explain": PLACES}.get(command, {})
        for what, content in contents.items():
            word = os.path.basename(file).split("*")[-1]
            found[f"{command}, {file} {what}"] = (command, arguments.split(), {**around, file: content}, word)
    return found


@pytest.fixture(scope="module")
def small_set(tmp_path_factory):
    directory = tmp_path_factory.mktemp("faults") / "set"
    arguments = ["--drawn", "--num_train=0", "--num_val=1", f"--data_dir={directory}"]
    subprocess.run([sys.executable, "scripts/construct_bim_dataset.py", *arguments], cwd=ROOT, check=True)
    return directory


def prepare(place, files, small_set):
    """Write the files of a case, below the place; those of the set go to a copy of the part of it that they are in."""
    changed = {name.split("/")[1] for name in files if name.startswith("{set}")}
    if changed:
        (place / "set").mkdir()
        for path in small_set.iterdir():
            if path.name in changed and path.is_dir():
                shutil.copytree(path, place / "set" / path.name, copy_function=os.link)  # replaced, never written to
            elif path.name not in changed:
                (place / "set" / path.name).symlink_to(path)
    for name, content in files.items():
        name = name.replace("{set}", "set")
        for path in sorted(place.glob(name)) if "*" in name else [place / name]:
            path.parent.mkdir(parents=True, exist_ok=True)
            before = path.read_text() if isinstance(content, tuple) else ""
            if path.is_file():
                path.unlink()
            if callable(content):
                content(path)
            elif isinstance(content, tuple):
                path.write_text("".join(f"{line.split()[0]} {content[1]}\n" for line in before.splitlines()))
            else:
                path.write_bytes(content)


def listing(place):
    return {str(path) for path in place.rglob("*") if not path.is_dir() or path.is_symlink()}


def too_late(*_):
    raise TimeoutError(f"no end within {SECONDS} s")


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.encode("unicode_escape").decode())
def test_bad_input_ends_in_one_line(case, small_set, load_once, tmp_path, monkeypatch, capfd):
    command, arguments, files, word = cases()[case]
    prepare(tmp_path, files, small_set)
    before, data = listing(tmp_path), tmp_path / "set" if (tmp_path / "set").exists() else small_set
    given = [each.replace("{set}", str(data)).replace("MODEL", str(MODELS / "clevr_xai/relation_network"))
             for each in arguments]  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ATTRIBUTION_BENCHMARKS_CACHE", str(tmp_path.parent / "cache"))
    module = importlib.import_module(MODULES[command])
    handler = signal.signal(signal.SIGALRM, too_late)
    signal.alarm(SECONDS)
    try:
        code = cli.execute(module.main, module.FLAGS, module.__doc__, ["command", *given])
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, handler)
    lines = [line for line in capfd.readouterr().err.replace("\r", "\n").splitlines() if line.strip()]
    assert code == 2 and lines[-1].startswith("error: ") and lines[-1].isprintable() and word in lines[-1]
    assert listing(tmp_path) == before
