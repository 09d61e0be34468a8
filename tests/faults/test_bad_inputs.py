"""Every bad or hostile input of the table ends in one line and exit code 2, in time, and leaves nothing behind.

A case is (name, command, arguments, files, word). The files are written before, each by content or by one of the makers
below. ``{set}`` in the arguments is a copy of a small set of BIM's, in which files may be replaced; ``MODEL`` is a
network of CLEVR-XAI's. ``word`` must be in the line.
"""

import functools
import importlib
import io
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest

import attribution
from attribution import cli

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = ROOT / "saved_models"
SECONDS = 240  # for one case, which is seconds on an idle machine
ALWAYS = {  # unless the case says something else
    "exact": ["--benchmark=exact"],
    "explain": ["--preprocessing=0..1", "--methods=gradient", "--explain_input=image"],
}
MODULES = {
    "svea": "svea.benchmark", "bim": "bim.metrics", "clevr_xai": "clevr_xai.evaluate", "tcav": "bim.run_tcav",
    "construct": "scripts.construct_bim_dataset", "generate": "scripts.generate_clevr_xai",
    "export": "attribution.export.__main__", "baseline": "svea.baseline",
    "exact": "attribution_benchmarks.core.evaluate", "networks": "research.clevr_xai.compare_networks",
    "card": "research.clevr_xai.data_card",
    "report": "attribution_benchmarks.report.reproduce", "explain": "attribution.explain.__main__",
}  # fmt: skip
DEEP = b"[" * 100_000
HUGE = 10**40


def npy_promising(shape: str) -> bytes:
    """Return an .npy file whose header promises more than it holds."""
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + header.ljust(117).encode() + b"\n"


def npz(**arrays) -> bytes:
    """Return an .npz file."""
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def png_of(width: int, height: int) -> bytes:
    """Return a PNG file that says it has so many pixels, and has none."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def fifo(path) -> None:
    """Put a pipe in place of a file: whoever reads it waits for ever."""
    os.mkfifo(path)


def fifo_in_network(path) -> None:
    """Put a pipe in place of an asset of a network."""
    shutil.copytree(MODELS / "clevr_xai/relation_network/1", path.parent.parent, dirs_exist_ok=True)
    path.unlink()
    os.mkfifo(path)


def loop(path) -> None:
    """Put a link to itself in place of a file."""
    os.symlink(path, path)


def directory(path) -> None:
    """Put a directory in place of a file."""
    os.mkdir(path)


def coco(**change) -> bytes:
    """Return COCO annotations of ten images of each class, every first of them changed."""
    names = ("backpack", "bird", "dog", "elephant", "kite", "pizza", "stop sign", "toilet", "truck", "zebra")
    document = {"images": [], "annotations": [], "categories": []}
    for number, name in enumerate(names, start=1):
        document["categories"].append({"id": number, "name": name})
        image = {"id": number, "file_name": f"{number}.jpg", "height": 20, "width": 30}
        instance = {"id": number, "image_id": number, "category_id": number, "area": 9, "iscrowd": 0}
        instance["segmentation"] = [[1, 1, 9, 1, 9, 9]]
        for key, value in change.items():
            for entry in (image, instance):
                if key in entry and key != "id":
                    entry[key] = value
        document["images"].append(image)
        document["annotations"].append(instance)
    return json.dumps(document).encode()


def question(**change) -> bytes:
    """Return a file of one question about the scene below."""
    node = {"type": "scene", "inputs": [], "_output": [0]}
    entry = {"question": "What?", "answer": "red", "program": [node], "image_filename": "a.png", "question_index": 0}
    return json.dumps({"questions": [{**entry, **change}]}).encode()


def scene(**change) -> bytes:
    """Return a file of one scene with one object."""
    item = {"mask_color": [0.1, 0.2, 0.3], "color": "red", "size": "large", "shape": "cube", "material": "metal"}
    entry = {"image_filename": "a.png", "mask_filename": "a.png", "objects": [item]}
    return json.dumps({"scenes": [{**entry, **change}]}).encode()


def program(*nodes) -> bytes:
    """Return a question with a program."""
    return question(program=[{"inputs": [], "_output": [0], **node} for node in nodes])


CLEVR = {
    "data/CLEVR-XAI_simple_questions.json": question(),
    "data/CLEVR-XAI_scenes.json": scene(),
    "data/images/a.png": png_of(128, 128),
    "data/masks/a.png": png_of(128, 128),
}
ASK = ["--data_dir=data", "--methods=gradient", "--num_questions=all"]
CONSTRUCT = ["--coco_annotations=coco.json", "--coco_dir=.", "--data_dir=out", "--num_train=0", "--num_val=1"]
SCORE = ["--data_dir={set}", "--methods=gradient", "--num_imgs=2", "--metrics=MCS"]


def cases() -> list[tuple]:
    """Return all cases."""
    found = []

    def add(name, command, arguments, files=(), word="error: "):
        found.append((name, command, list(arguments), dict(files), word))

    # flags
    for command, flags in {  # the runner checks the shared flags of all benchmarks
        "svea": ("plot_dir", "scores_dir"),
        "bim": ("save_maps", "cache_dir"),
        "generate": ("output_dir",),
        "construct": ("data_dir",),
        "baseline": ("output_dir",),
    }.items():
        for flag in flags:
            for value in ("x" * 300, "/proc/new", "file", "file/below"):
                add(f"{command} --{flag}={value[:12]}", command, [f"--{flag}={value}"], {"file": b""}, f"--{flag}=")
    places = {"file": b"", "pipe.json": fifo, "folder.json": directory}
    for value in ("x.xlsx", "x", "file/x.json", "/proc/x.json", "pipe.json", "folder.json", "a\x1b[2J.xlsx"):
        add(f"svea --output={value!r}", "svea", [f"--output={value}"], places, "--output=")
    for command in ("svea", "bim", "clevr_xai"):
        alone = ["--controls="] if command == "clevr_xai" else ["--nocontrols"] if command == "bim" else []
        for value in ("nothing", "", "os:getcwd", ":f", "no/such.py:f", "a.py:f:g"):
            add(f"{command} --methods={value}", command, [f"--methods={value}", *alone])
    for value in ("-1", "0", "x", "1e9"):
        add(f"svea --batch_size={value}", "svea", [f"--batch_size={value}"])
    for value in ("-1", "x", "1.5", "nan"):
        add(f"svea --seed={value}", "svea", [f"--seed={value}"])
    add("svea unexpected", "svea", ["argument"], word="unexpected argument")
    add("svea unknown flag", "svea", ["--nothing=1"], word="nothing")
    for command, flag in (("bim", "num_imgs"), ("clevr_xai", "num_questions")):
        for value in ("-1", "0", "x", "", "²", "1.5"):
            add(f"{command} --{flag}={value}", command, [f"--{flag}={value}"], word=flag)
    # models
    damaged = {"model/saved_model.pb": b"\x08\x01\x12\xff\xff\xff"}
    for command, flags in {
        "svea": ["--model=model"],
        "clevr_xai": ["--model=model"],
        "bim": ["--models=obj=model", *SCORE],
        "tcav": ["--model=model", "--target=dog", "--data_dir={set}"],
        "exact": ["--model=model"],
    }.items():
        add(f"{command}, model missing", command, flags)
        add(f"{command}, model cut off", command, flags, damaged)
    for what, files in {
        "missing": {},
        "a file": {"model": b"x"},
        "empty": {"model/x": b""},
        "cut off": damaged,
        "of zeros": {"model/saved_model.pb": bytes(99)},
        "a pipe": {"model/saved_model.pb": fifo},
        "a loop": {"model/saved_model.pb": loop},
        "empty file": {"model/saved_model.pb": b""},
        "text": {"model/saved_model.pb": b"hello, world\n" * 9},
    }.items():
        add(f"export, model {what}", "export", ["--model=model", "--output=out"], files)
    # COCO
    for what, content in {
        "deep": DEEP,
        "empty": b"",
        "text": b"hello",
        "binary": bytes(range(256)),
        "list": b"[]",
        "number": b"1",
        "cut off": coco()[:300],
        "a pipe": fifo,
        "a loop": loop,
        "a directory": directory,
        "no lists": b"{}",
        "utf-16": coco().decode().encode("utf-16"),
        "name outside": coco(file_name="../../etc/passwd"),
        "absolute name": coco(file_name="/etc/passwd"),
        "no name": coco(file_name=None),
        "name a number": coco(file_name=7),
        "huge height": coco(height=10**12),
        "no height": coco(height=None),
        "negative height": coco(height=-5),
        "height text": coco(height="20"),
        "area text": coco(area="9"),
        "area NaN": coco(area=float("nan")),
        "area negative": coco(area=-1),
        "no outline": coco(segmentation=None),
        "outline text": coco(segmentation="x"),
        "empty outline": coco(segmentation=[]),
        "two points": coco(segmentation=[[1, 1, 2, 2]]),
        "odd outline": coco(segmentation=[[1, 1, 2, 2, 3, 3, 4]]),
        "outline outside": coco(segmentation=[[1, 1, 900, 1, 9, 9]]),
        "outline NaN": coco(segmentation=[[1, 1, float("nan"), 1, 9, 9]]),
        "runs": coco(segmentation={"counts": [1], "size": [20, 30]}),
        "runs text": coco(segmentation={"counts": "x", "size": [20, 30]}),
        "image gone": coco(image_id=77),
        "category gone": coco(category_id=77),
        "all crowds": coco(iscrowd=1),
        "ids huge": coco(image_id=HUGE),
    }.items():
        add(f"COCO {what}", "construct", CONSTRUCT, {"coco.json": content})
    # sets of BIM's
    for name in ("obj/val.txt", "obj/val_loc.txt", "obj/val_mask.npz", "construction.json"):
        kinds = {"empty": b"", "binary": bytes(range(256)), "a pipe": fifo, "a loop": loop, "a directory": directory}
        for what, content in kinds.items():
            if name != "construction.json":
                add(f"{name} {what}", "bim", SCORE, {f"{{set}}/{name}": content})
            else:
                add(f"{name} {what}", "construct", ["--drawn", "--data_dir={set}"], {f"{{set}}/{name}": content})
    masks = {"bits": np.zeros(1, np.uint8), "shapes": np.array([[2, 2]])}
    for what, content in {
        "promising": npy_promising("(1000000, 1000000)"),
        "no arrays": npz(),
        "other names": npz(x=masks["bits"]),
        "shapes huge": npz(**{**masks, "shapes": np.array([[1 << 40, 2]])}),
        "one mask": npz(**masks),
        "shapes negative": npz(**{**masks, "shapes": np.array([[-2, -2]])}),
        "objects": b"\x80\x04K\x01.",
        "keys twice": npz(**masks, keys=np.array(["a", "a"])),
        "all false": npz(bits=np.zeros(10, np.uint8), shapes=np.array([[2, 2]] * 20)),
    }.items():
        add(f"masks {what}", "bim", SCORE, {"{set}/obj/val_mask.npz": content})
    for what, line in {
        "zeros": "0,0,0,0",
        "outside": "0,0,999,5",
        "reversed": "9,9,3,3",
        "text": "a,b,c,d",
        "three": "1,2,3",
        "huge": f"{HUGE},1,2,3",
    }.items():
        add(f"boxes {what}", "bim", SCORE, {"{set}/obj/val_loc.txt": ("replace every value by", line)})
    for what, line in {"text": "x", "ten": "10", "negative": "-1", "huge": str(HUGE), "half": "0.5"}.items():
        add(f"labels {what}", "bim", SCORE, {"{set}/obj/val.txt": ("replace every value by", line)})
    for what, content in {
        "of terabytes": png_of(1 << 30, 1 << 30),
        "large": png_of(20_000, 20_000),
        "cut off": png_of(128, 128),
        "empty": b"",
        "text": b"hello",
        "one pixel": png_of(1, 1),
    }.items():
        add(f"image {what}", "bim", SCORE, {"{set}/obj/val/*.jpg": content})
        add(f"CLEVR image {what}", "clevr_xai", ASK, {**CLEVR, "data/images/a.png": content})
        add(f"CLEVR mask {what}", "clevr_xai", ASK, {**CLEVR, "data/masks/a.png": content})
    # CLEVR-XAI
    for name in ("data/CLEVR-XAI_simple_questions.json", "data/CLEVR-XAI_scenes.json"):
        for what, content in {
            "deep": DEEP,
            "empty": b"",
            "list": b"[]",
            "text": b"x",
            "cut off": question()[:50],
            "a pipe": fifo,
            "a loop": loop,
            "utf-16": question().decode().encode("utf-16"),
            "no entries": b'{"questions": [], "scenes": []}',
            "entries text": b'{"questions": ["x"], "scenes": ["x"]}',
            "binary": bytes(range(256)),
        }.items():
            add(f"{name[5:]} {what}", "clevr_xai", ASK, {**CLEVR, name: content})
    for what, content in {
        "index huge": question(question_index=HUGE),
        "index text": question(question_index="x"),
        "index negative": question(question_index=-1),
        "image outside": question(image_filename="../../etc/passwd"),
        "image unknown": question(image_filename="b.png"),
        "answer unknown": question(answer="maybe"),
        "empty program": question(program=[]),
        "program text": question(program="x"),
        "node text": question(program=["x"]),
        "no type": question(program=[{}]),
        "cycle": program({"type": "union", "inputs": [0], "_output": []}),
        "longer cycle": program({"type": "exist", "inputs": [1]}, {"type": "union", "inputs": [0, 0], "_output": []}),
        "input huge": program({"type": "unique", "inputs": [HUGE], "_output": 0}),
        "no output": question(program=[{"type": "scene", "inputs": []}]),
        "output text": program({"type": "filter_color", "_output": "x"}),
        "output negative": program({"type": "filter_color", "_output": [-1]}),
        "output beyond": program({"type": "filter_color", "_output": [9]}),
        "output true": program({"type": "unique", "_output": True}),
        "output deep": program({"type": "filter_color", "_output": [[0]]}),
        "surrogate": question(question="\ud800", answer="\udcff\n"),
    }.items():
        add(f"question {what}", "clevr_xai", ASK, {**CLEVR, "data/CLEVR-XAI_simple_questions.json": content})
    for what, content in {
        "mask outside": scene(mask_filename="../../../etc/passwd"),
        "mask a number": scene(mask_filename=7),
        "image absolute": scene(image_filename="/etc/passwd"),
        "objects text": scene(objects=["x"]),
        "objects none": scene(objects=None),
        "no colour": scene(objects=[{}]),
        "colour text": scene(objects=[{"mask_color": "x"}]),
    }.items():
        add(f"scene {what}", "clevr_xai", ASK, {**CLEVR, "data/CLEVR-XAI_scenes.json": content})
    # servers
    for value in (*"http://[::1 x ftp://x http:// grpc://x:y http://a..b http://x:99999".split(), "http://" + "a" * 70):
        add(f"--server={value[:12]}", "bim", [*SCORE, f"--server={value}"])
    for value in ("inf", "nan", "0", "-1", "x"):
        given = [*SCORE, "--server=http://127.0.0.1:1", f"--deadline={value}"]
        add(f"--deadline={value}", "bim", given, word="deadline")
    # generation
    for value in ("100x100", "x", "0x0", "480", "-480x-320", "480000x320000"):
        add(f"--image_size={value}", "generate", [f"--image_size={value}", "--output_dir=out"])
    flags = "stored_size=100000000 samples=3 samples=0 num_images=0 questions=hard questions= questions=simple,simple"
    for flag in flags.split():
        add(f"--{flag}", "generate", [f"--{flag}", "--output_dir=out"])
    return [*found, *cases_of_later_commands()]


def cases_of_later_commands() -> list[tuple]:
    """Return the cases of a benchmark that is one definition, of networks and reports compared, and of data cards."""
    found = []

    def add(name, command, arguments, files=(), word="error: "):
        found.append((name, command, list(arguments), dict(files), word))

    places = {"file": b"", "pipe.json": fifo, "folder.json": directory, "deep.json": DEEP}
    add("networks --output=x.xlsx", "networks", ["--tables=deep.json", "--output=x.xlsx"], places, "--output=")
    for value in ("missing.json", "file", "pipe.json", "folder.json", "deep.json"):
        add(f"networks --tables={value}", "networks", [f"--tables={value}"], places, value)
    for value in ("x.xlsx", "x.json", "file/x.md", "/proc/x.md"):
        add(f"card --output={value}", "card", [f"--output={value}"], places, "--output=")
    for value in ("-1", "0", "x"):
        add(f"card --traced={value}", "card", [f"--traced={value}"], word="traced")

    # metrics, controls, methods and benchmarks by name
    for value in ("nothing", "os:getcwd", ":", "no/such.py:f", "roc_auc,nothing"):
        add(f"exact --metrics={value}", "exact", [f"--metrics={value}"])
    for value in ("nothing", "gradient", "random,random"):
        add(f"bim --compare={value}", "bim", ["--methods=rise", f"--compare={value}"], word="--compare=")
    for value in ("nothing", "os:getcwd", ":", "no/such.py:f"):
        add(f"exact --methods={value}", "exact", [f"--methods={value}"])
        add(f"exact --benchmark={value}", "exact", [f"--benchmark={value}"])
    for value in ("svea", "bim", "clevr_xai"):
        own = "its own command: attribution-benchmarks"
        add(f"exact --benchmark={value}", "exact", [f"--benchmark={value}"], word=own)

    # maps made elsewhere
    for what, files in {
        "missing": {},
        "a file": {"maps": b"x"},
        "none": {"maps/gradient/x.txt": b""},
        "of other inputs": {"maps/gradient/other.npy": npy_promising("(1,)")},
    }.items():
        add(f"exact, maps {what}", "exact", ["--precomputed_maps=maps"], files)
    add("exact, maps and a model", "exact", ["--precomputed_maps=maps", "--model=model"], word="--precomputed_maps")

    # pipes and devices in place of any other file
    for flag in ("methods", "metrics", "benchmark"):
        add(f"exact --{flag}, a pipe", "exact", [f"--{flag}=pipe.py:f"], {"pipe.py": fifo}, "pipe.py")
    for value in ("pipe", "/dev/zero", "/dev/stdin", "pipe/1"):
        for command in ("svea", "exact", "clevr_xai", "export"):
            output = ["--output=out"] if command == "export" else []
            add(f"{command} --model={value}", command, [f"--model={value}", *output], {"pipe": fifo}, value)
    for ending in ("", "-journal", "-wal", "-shm"):
        files = {f"scores/scores.sqlite{ending}": fifo}
        add(f"svea, scores{ending} a pipe", "svea", ["--methods=gradient", "--scores_dir=scores"], files, "regular")
    add("svea, origin a pipe", "svea", ["--methods=gradient", "--save_maps=maps"], {"maps/origin.json": fifo}, "origin")
    for name in ("lock", "children.lock"):
        files = {f"out/work/{name}": fifo}
        add(f"report, {name} a pipe", "report", ["--output_dir=out"], files, "--output_dir=")
    add("clevr_xai, images a pipe", "clevr_xai", ASK, {**CLEVR, "data/images/a.png": fifo}, "a.png")
    add("clevr_xai, masks a pipe", "clevr_xai", ASK, {**CLEVR, "data/masks/a.png": fifo}, "a.png")
    add("bim, val.txt a pipe", "bim", SCORE, {"{set}/obj/val.txt": fifo}, "val.txt")
    add("bim, picture a pipe", "bim", SCORE, {"{set}/obj/val/*.jpg": fifo}, ".jpg")
    for name in ("question_words.txt", "answers.txt"):
        files = {f"model/assets/{name}": fifo_in_network}
        add(f"clevr_xai, {name} a pipe", "clevr_xai", ["--model=model"], files, name)

    # data to describe
    for what, files in {
        "missing": {},
        "a file": {"data": b""},
        "empty": {"data/x": b""},
        "scenes deep": {**CLEVR, "data/CLEVR-XAI_scenes.json": DEEP},
        "scenes cut off": {**CLEVR, "data/CLEVR-XAI_scenes.json": scene()[:50]},
        "scenes a pipe": {**CLEVR, "data/CLEVR-XAI_scenes.json": fifo},
        "scenes list": {**CLEVR, "data/CLEVR-XAI_scenes.json": b"[]"},
        "objects text": {**CLEVR, "data/CLEVR-XAI_scenes.json": scene(objects=["x"])},
        "mask outside": {**CLEVR, "data/CLEVR-XAI_scenes.json": scene(mask_filename="../../etc/passwd")},
        "questions text": {**CLEVR, "data/CLEVR-XAI_simple_questions.json": b"x"},
        "cycle": {**CLEVR, "data/CLEVR-XAI_simple_questions.json": program({"type": "union", "inputs": [0]})},
        "image of terabytes": {**CLEVR, "data/images/a.png": png_of(1 << 30, 1 << 30)},
        "mask cut off": CLEVR,
    }.items():
        add(f"card, data {what}", "card", ["--data_dir=data"], files)

    found += cases_of_explain()

    return found


def cases_of_explain() -> list[tuple]:
    """Return the cases of pictures, arrays and outputs of ``attribution.explain``."""
    found = []
    model, picture = "--model=MODEL", {"x.png": png_of(128, 128)}
    for what, content in {
        "of terabytes": png_of(1 << 30, 1 << 30),
        "large": png_of(20_000, 20_000),
        "one pixel wide": png_of(1, (1 << 31) - 1),
        "cut off": png_of(128, 128),
        "empty": b"",
        "text": b"hello",
        "a pipe": fifo,
    }.items():
        found.append((f"explain, picture {what}", "explain", [model, "--image=x.png"], {"x.png": content}, "x.png"))
    for what, content in {
        "like an archive": b"PK\x03\x04" + bytes(60),
        "promising": npy_promising("(1000000, 1000000)"),
        "an archive": npz(x=np.zeros(3)),
        "objects": b"\x80\x04K\x01.",
        "empty": b"",
        "a pipe": fifo,
    }.items():
        found.append((f"explain, array {what}", "explain", [model, "--image=x.npy"], {"x.npy": content}, "x.npy"))
    places = {**picture, "file": b"", "pipe.png": fifo, "folder.png": directory}
    for flag, suffix in (("output", "png"), ("maps", "npz")):
        for value in ("x" * 260, "nowhere/" + "x" * 260, "/proc/new", "file/below", "\x1b[2J/" + "x" * 260):
            given = [model, "--image=x.png", f"--{flag}={value}.{suffix}"]
            found.append((f"explain --{flag}={value[:12]!r}", "explain", given, places, f"--{flag}="))
    for value in ("pipe.png", "folder.png", "maps.gif", "maps"):
        given = [model, "--image=x.png", f"--output={value}"]
        found.append((f"explain --output={value}", "explain", given, places, "--output="))
    for value in ("no\x1b[2J.png", "no\u202egnp.png", "no\x9b2J.png"):
        found.append((f"explain --image={value!r}", "explain", [model, f"--image={value}"], {}, "does not exist"))
    for what, content in {"a pipe": fifo, "deep": DEEP, "binary": bytes(range(256))}.items():
        given = [model, "--image=x.png", "--class_names=names.json"]
        files = {**picture, "names.json": content}
        found.append((f"explain, class names {what}", "explain", given, files, "names.json"))
    return found


@pytest.fixture(scope="module")
def small_set(tmp_path_factory):
    directory = tmp_path_factory.mktemp("faults") / "set"
    arguments = ["--drawn", "--num_train=0", "--num_val=1", f"--data_dir={directory}"]
    subprocess.run([sys.executable, "scripts/construct_bim_dataset.py", *arguments], cwd=ROOT, check=True)
    return directory


@pytest.fixture(scope="module", autouse=True)
def models_are_loaded_once():
    """Load each committed model once for all cases: most bad inputs are found after loading."""
    load = attribution.load_model
    once = functools.lru_cache(maxsize=None)(load)

    def load_model(path, **options):
        known = pathlib.Path(path).resolve().is_relative_to(MODELS) and not options.keys() - {"score"}
        return (once if known else load)(path, **options)

    with pytest.MonkeyPatch.context() as patch:
        for module in (attribution, attribution.loading):  # commands call the latter
            patch.setattr(module, "load_model", load_model)
        yield


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


@pytest.mark.parametrize("case", cases(), ids=lambda case: case[0].encode("unicode_escape").decode())
def test_bad_input_ends_in_one_line(case, small_set, tmp_path, monkeypatch, capfd):
    _, command, arguments, files, word = case
    prepare(tmp_path, files, small_set)
    before, data = listing(tmp_path), tmp_path / "set" if (tmp_path / "set").exists() else small_set
    given = [each.replace("{set}", str(data)).replace("MODEL", str(MODELS / "clevr_xai/relation_network"))
             for each in [*ALWAYS.get(command, ()), *arguments]]  # fmt: skip
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
