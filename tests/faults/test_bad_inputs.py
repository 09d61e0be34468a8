"""Every bad input of the table ends in one line and exit code 2, within a time limit, and leaves nothing behind."""

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import time

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NETWORK = ROOT / "saved_models" / "clevr_xai" / "relation_network"
GROUPS = (  # of commands whose cases one process runs
    ("svea", "exact", "report"), ("bim",), ("clevr_xai", "networks", "card", "explain"), ("construct", "generate"),
    ("tcav", "export", "baseline"),
)  # fmt: skip


def loaded(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


BAD = loaded(HERE / "bad_inputs.py")


@pytest.fixture(scope="session")
def small_set(tmp_path_factory):
    directory = tmp_path_factory.mktemp("faults") / "set"
    arguments = [
        "scripts/construct_bim_dataset.py",
        "--drawn",
        "--num_train=0",
        "--num_val=1",
        f"--data_dir={directory}",
    ]
    subprocess.run([sys.executable, *arguments], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
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


@pytest.mark.slow
@pytest.mark.parametrize("commands", GROUPS, ids="-".join)
def test_bad_inputs_end_in_one_line(commands, small_set, tmp_path):
    """Several run in one process; a hang or a crash is that process's end, and told with the case's name."""
    cases = [case for case in BAD.cases() if case[1] in commands]
    jobs = []
    for number, (name, command, arguments, files, word) in enumerate(cases):
        place = tmp_path / str(number)
        place.mkdir()
        prepare(place, files, small_set)
        data = place / "set" if (place / "set").exists() else small_set
        given = [argument.replace("{set}", str(data)).replace("MODEL", str(NETWORK)) for argument in arguments]
        jobs.append((name, command, str(place), given, word))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ATTRIBUTION_BENCHMARKS_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, HERE / "run_cases.py"], input=repr(jobs), cwd=ROOT, env=environment,
        capture_output=True, text=True, timeout=30 + 20 * len(jobs),
    )  # fmt: skip
    results = done.stdout.splitlines()
    assert done.returncode == 0 and len(results) == len(jobs), f"{results[-1:]} {done.stderr[-2000:]}"
    wrong = [line for line in results if not line.startswith("right ")]
    assert not wrong, "\n".join(wrong)


def test_the_table_is_large_and_no_name_stands_twice():
    names = [case[0] for case in BAD.cases()]
    assert len(names) == len(set(names)) >= 300
    assert {case[1] for case in BAD.cases()} == {command for group in GROUPS for command in group}


@pytest.mark.slow
def test_kills_races_and_full_disks():
    """The quick part of ``tests/faults/attack.py``, which says how to run the whole."""
    begun = time.monotonic()
    numbers = ["--kills=2", "--races=2", "--disks=1", "--small_disks=1", "--rights=1", "--targets=construct,generate"]
    done = subprocess.run([sys.executable, HERE / "attack.py", *numbers], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, f"{done.stderr[-3000:]} after {time.monotonic() - begun:.0f} s"
    assert done.stdout.endswith("\n0 failures\n")
