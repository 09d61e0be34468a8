"""The quick part of ``tests/faults/attack.py``: kills, races, full disks and missing rights leave whole files.

``-m exhaustive`` also kills a training; ``tests/clevr_xai/training/test_loop.py`` stops one in its own process.
"""

import pathlib
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent


def test_kills_races_and_full_disks():
    """Of the quickest command, by a seed that starts two at once; tests of other commands kill those."""
    numbers = [f"--{kind}=1" for kind in ("kills", "races", "disks", "small_disks", "rights", "failing")]
    numbers += ["--targets=construct", "--seed=2"]
    done = subprocess.run([sys.executable, HERE / "attack.py", *numbers], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.endswith("\n0 failures\n")


def test_a_training_killed_at_its_first_checkpoint_resumes_to_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(HERE)
    import targets

    name = "retrain_relation_network"
    target = targets.TARGETS[name]
    targets.prepare([name], tmp_path / "data")
    outs = [tmp_path / "undisturbed" / "out", tmp_path / "killed" / "out"]
    for out in outs:
        out.mkdir(parents=True)
    processes = [targets.started(name, out, tmp_path / "data") for out in outs]
    while not (outs[1] / target.checkpoint).exists() and processes[1].poll() is None:
        time.sleep(0.01)
    processes[1].kill()
    assert processes[1].wait() == -signal.SIGKILL
    assert not (outs[1] / "network").exists()
    processes[1] = targets.started(name, outs[1], tmp_path / "data")
    for process in processes:
        error = process.communicate()[1]
        assert process.returncode == 0, error[-3000:]
    assert targets.differing(*(targets.content(out, target) for out in outs)) == []
