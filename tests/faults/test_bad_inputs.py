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
COMMANDS = ("svea", "bim", "clevr_xai", "construct", "generate", "tcav", "export", "baseline")


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
    """Write the files of a case, below the place; those of the set go to a copy of it."""
    if any(name.startswith("{set}") for name in files):
        shutil.copytree(small_set, place / "set")
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


@pytest.mark.parametrize("command", COMMANDS)
def test_bad_inputs_end_in_one_line(command, small_set, tmp_path):
    """Several run in one process; a hang or a crash is that process's end, and told with the case's name."""
    cases = [case for case in BAD.cases() if case[1] == command]
    jobs = []
    for number, (name, _, arguments, files, word) in enumerate(cases):
        place = tmp_path / str(number)
        place.mkdir()
        prepare(place, files, small_set)
        data = place / "set" if (place / "set").exists() else small_set
        jobs.append((name, str(place), [argument.replace("{set}", str(data)) for argument in arguments], word))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ATTRIBUTION_BENCHMARKS_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, HERE / "run_cases.py", command], input=repr(jobs), cwd=ROOT, env=environment,
        capture_output=True, text=True, timeout=30 + 20 * len(jobs),
    )  # fmt: skip
    results = done.stdout.splitlines()
    assert done.returncode == 0 and len(results) == len(jobs), f"{results[-1:]} {done.stderr[-2000:]}"
    wrong = [line for line in results if not line.startswith("right ")]
    assert not wrong, "\n".join(wrong)


def test_the_table_is_large_and_no_name_stands_twice():
    names = [case[0] for case in BAD.cases()]
    assert len(names) == len(set(names)) >= 300
    assert {case[1] for case in BAD.cases()} == set(COMMANDS)


def test_kills_races_and_full_disks():
    """The quick part of ``tests/faults/attack.py``, which says how to run the whole."""
    begun = time.monotonic()
    numbers = ["--kills=2", "--races=2", "--disks=1", "--small_disks=1", "--targets=construct,generate"]
    done = subprocess.run([sys.executable, HERE / "attack.py", *numbers], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, f"{done.stderr[-3000:]} after {time.monotonic() - begun:.0f} s"
    assert done.stdout.endswith("6 of 6 attacks, 0 failures\n")
