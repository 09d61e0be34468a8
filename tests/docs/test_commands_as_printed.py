"""The commands of README, the pages and the scripts run as they are printed, in a fresh clone with an empty cache.

They are the lines of bash blocks on the pages, and the indented lines of the scripts' first comments. The clone has the
last commit. Commands that are left out have a reason; ``test_printed_commands.py`` looks at their flags. Of the others,
``-m exhaustive`` runs those that take longest.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted(path for path in (ROOT / "scripts").iterdir() if path.suffix in (".py", ".sh")),
]
# Why commands are left out -> how they begin.
LEFT_OUT = {
    "makes an environment, as .ci/run does": ["python3 -m venv", ".venv/bin/pip", "pip "],
    "tests/test_wheel.py builds and installs a wheel": ["pip wheel", "pip install dist/"],
    "needs Docker": ["docker run", "attribution-benchmarks serve$", "bash scripts/serve.sh$"],
    "downloads, or needs what was downloaded": [
        "bash scripts/download", "python scripts/construct_bim_dataset.py --coco_dir",
        "python -m bim.metrics --compat=upstream", "python scripts/construct_delta_patch.py --data_dir",
        "python scripts/generate_clevr_xai.py --renderer=blender",
        "python scripts/train_bim_models.py --data_dir=data/bim --architecture",
    ],
    "a report: 4 minutes to an hour": ["python scripts/reproduce_tables.py", "attribution-benchmarks report"],
    "three minutes; tests/attribution_benchmarks/report/test_published.py runs it on a small set": [
        "attribution-benchmarks score my_method.py:sharpened --output",
    ],
    "five networks of SVEA: 4 CPU minutes; tests/svea/test_benchmark.py does it with two small ones": [
        "python -m svea.benchmark --models",
        "python -m svea.benchmark --methods=gradient,grad_cam,my_method.py:sharpened --models",
    ],
    "ten methods on 5,000 signals: a CPU minute; the command runs with fewer methods": ["python -m svea.benchmark$"],
    "draws for more than a CPU minute; tests/bim/test_construct.py draws fewer": [
        "python scripts/construct_bim_dataset.py --drawn --num_train=100",
    ],
    "tests/docs/test_scale.py runs it in its own process": [
        "attribution-benchmarks exact --methods=gradient,smoothgrad --num_imgs=36",
    ],
    "22 exports: 2 to 3 CPU minutes; tests/scripts/test_serve.py does it with two": [
        "attribution-benchmarks serve --stand_in$", "bash scripts/serve.sh --",
    ],
    "tests/docs/test_extend.py runs it with its output": [
        "python -m svea.benchmark --methods=gradient,grad_cam --metrics=roe_test,roc_auc,sparsity.py:GINI",
        "python -m clevr_xai.evaluate --metrics=mass,roc_auc,sparsity.py:GINI", "python bright_half.py",
        "attribution-benchmarks bright_half.py:BRIGHT_HALF",
    ],
    "needs a server of all models; tests/attribution_benchmarks/serving and tests/bim do it": [
        "python scripts/compare_served_models.py", "python -m bim.metrics --metrics=MCS,IDR,IIR,RMCS --server",
    ],
    "renders for minutes to hours": [".venv/bin/python scripts/generate", "python scripts/generate", "G=", "$G "],
    "trains for half an hour to hours": [
        "python scripts/train", "python scripts/construct_bim_dataset.py --drawn --num_train=200",
    ],
    "a contest: rendered, or scored by all methods; tests of each benchmark draw fewer": [
        "python -m svea.benchmark --data_seed", "python scripts/construct_bim_dataset.py --drawn --num_train=0",
        "python -m bim.metrics --metrics=MCS,IDR --data_dir=contest", "python -m clevr_xai.evaluate --data_dir=contest",
    ],
    "all tests: minutes": [".venv/bin/python -m pytest"],
    "needs Flax or torch_xla; tests/docs/test_jax_and_pytorch.py runs them where they are installed": [
        "python flax_network.py", "python -m venv exporting", "exporting/bin/",
        "python -m attribution.explain --model=flax_network", "python -m attribution.explain --model=torch_network",
        "python -m attribution.inspect --model=torch_network",
    ],
    "needs PyTorch; tests/attribution_benchmarks/torch runs them where it is installed": [
        "attribution-benchmarks check torch:", "attribution-benchmarks svea --methods=torch:",
        "python -m svea.benchmark --methods=torch:",
        "attribution-benchmarks export-torch", "cd exported &&",
        "attribution-benchmarks svea --precomputed_maps=exported",
    ],
    "15 CPU minutes to hours": [
        "python -m tools.performance", "python -m clevr_xai.evaluate --num_questions=40 --steps=304",
    ],
}  # fmt: skip
LONGEST = (
    "python -m bim.metrics --metrics=MCS,roc_auc", "python scripts/construct_delta_patch.py",
    # tests/attribution/export exports small networks, tests/scripts/test_serve.py serves two.
    "python -m attribution.export --model=saved_models/bim/obj", "attribution-benchmarks serve --stand_in --models=",
    # The command has its own tests; so have the benchmarks of single features and of sequences.
    "attribution-benchmarks check my_method.py", "python -m svea.benchmark --model=saved_models/svea/deletions",
    "attribution-benchmarks sequences",
)  # fmt: skip


def printed(page):
    """Return the commands of a page or script, continued lines joined."""
    text = page.read_text("utf-8")
    if page.suffix == ".md":
        lines = "".join(re.findall(r"^```bash\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
    else:
        pattern = r'r?"""(.*?)"""' if page.suffix == ".py" else r"#!.*\n((?:#.*\n)*)"
        comment = re.sub("^# ?", "", re.match(pattern, text, re.DOTALL if page.suffix == ".py" else 0)[1], flags=re.M)
        lines = "\n".join(re.findall("^    .*(?:\\\\\n.*)*", comment, re.MULTILINE))
    return [line.strip() for line in re.sub(r"\s*\\\n\s*", " ", lines).splitlines() if line.strip()]


def begins(command, start):
    """Return whether a command begins so; ``$`` is its end, before a comment."""
    return f"{command.split('  #')[0].rstrip()}$".startswith(start)


def is_left_out(command):
    return any(begins(command, start) for starts in LEFT_OUT.values() for start in starts)


FOUND = [command for page in PAGES for command in printed(page)]
COMMANDS = list({command.removeprefix(".venv/bin/"): command for command in reversed(FOUND)}.values())[::-1]
RUN = [command for command in COMMANDS if not is_left_out(command)]


def test_whatever_is_left_out_is_printed():
    starts = [start for starts in LEFT_OUT.values() for start in starts]
    assert [start for start in starts if not any(begins(command, start) for command in COMMANDS)] == []
    assert len(RUN) >= 17
    assert sum(command.startswith(LONGEST) for command in RUN) == len(LONGEST)


TABLE = "age,income,debt,kind\n0.5,1,2,0\n-1,0,0.3,3\n"


def block(page, words):
    """Return the one block of Python on a page that has some words."""
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text("utf-8"), re.DOTALL | re.MULTILINE)
    (found,) = [one for one in blocks if words in one]
    return found


@pytest.fixture(scope="module")
def clone(tmp_path_factory, quick_python):
    """A clone with the files that the pages have the reader write, and the environment of a shell in it."""
    folder = tmp_path_factory.mktemp("printed")
    clone = folder / "clone"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    (clone / ".venv/bin").mkdir(parents=True)
    for name, module in (("python", ""), ("attribution-benchmarks", " -m attribution_benchmarks")):
        (clone / ".venv/bin" / name).write_text(f'#!/bin/sh\nexec {quick_python}{module} "$@"\n')
        (clone / ".venv/bin" / name).chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ATTRIBUTION_")}
    environment |= {"XDG_CACHE_HOME": str(folder / "cache"), "PYTHONPATH": str(clone)}
    environment["PATH"] = f"{clone}/.venv/bin:{environment['PATH']}"
    (clone / "my_method.py").write_text(block("README.md", "def sharpened"))
    (clone / "sparsity.py").write_text(block("docs/extend.md", "GINI = "))
    (clone / "table.csv").write_text(TABLE)
    shutil.copy(clone / "docs/pictures/zebra.jpg", clone / "photo.jpg")
    networks = block("docs/own_models.md", "keras.Sequential") + "\nnetwork.save('network.keras')\n"
    networks += block("docs/own_models.md", 'columns["kind"]')
    subprocess.run([quick_python, "-c", networks], cwd=clone, env=environment, check=True)
    return clone, environment


def marked(command):
    return pytest.param(command, marks=pytest.mark.exhaustive) if command.startswith(LONGEST) else command


@pytest.mark.parametrize("command", map(marked, RUN))
def test_a_command_runs_as_printed(clone, command):
    """In the order of the pages, since one command writes what the next reads."""
    directory, environment = clone
    with subprocess.Popen(
        ["bash", "-c", command], cwd=directory, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    ) as running:  # fmt: skip
        if " serve " in command:
            assert running.stdout.readline().startswith("serving 1 model on grpc://"), running.stderr.read()
            os.killpg(running.pid, signal.SIGTERM)
            return
        said, errors = running.communicate()
    assert running.returncode == 0 and "Traceback" not in errors, errors[-2000:]
    assert said.strip() or " -c " in command
    for written in re.findall(r"--(?:output|maps)=(\S+)", command):
        assert (directory / written).exists()
