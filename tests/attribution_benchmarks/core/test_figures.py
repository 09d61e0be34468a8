"""Figures of a run show what was scored: some inputs, the truth about them, and the maps of all methods."""

import numpy as np
from PIL import Image

from attribution import cli, plot
from attribution_benchmarks.cli.benchmark_command import Command
from attribution_benchmarks.core import figures
from attribution_benchmarks.core.evaluation import load, prepare
from attribution_benchmarks.core.registry import benchmark_named


def test_maps_of_inputs_that_are_spread_evenly_are_those_that_are_saved(toy, tmp_path, monkeypatch):
    place, drawn = f"{toy}:TOY", []
    monkeypatch.setattr(figures, "plot", lambda *given, **more: drawn.append((given, more)) or plot(*given, **more))
    command = Command(benchmark_named(place), place)
    flags = ["toy", f"--save_maps={tmp_path / 'maps'}", f"--plot_dir={tmp_path / 'plots'}"]
    assert cli.execute(command.main, command.flags, "", flags) == 0
    (((shown, inputs), more),) = drawn
    names = ["0", "3", "7", "11"]
    assert [title.partition(",")[0] for title in more["titles"]] == names and len(inputs) == 4
    truth, *methods = shown
    assert truth.endswith(" (truth)") and methods == ["gradient", "gradient_x_input"]
    for method in methods:
        saved = [np.load(tmp_path / "maps" / method / f"{name}.npy") for name in names]
        np.testing.assert_array_equal(shown[method], np.stack(saved))
    (path,) = (tmp_path / "plots").iterdir()
    with Image.open(path) as picture:
        assert path.suffix == ".png" and np.asarray(picture.convert("L")).std() > 5


def test_only_inputs_that_count_are_shown():
    settings = benchmark_named("clevr_xai").settings(questions="complex", num_questions=30)
    evaluation = load(prepare(benchmark_named("clevr_xai"), ["gradient"], settings))
    ((evaluator,),) = evaluation.measurements()
    batch, maps = evaluator.some_maps(30)
    network = evaluation.questions.network
    assert 0 < len(batch) < 30 and len(maps["gradient"]) == len(batch)
    assert (network.model.predict(batch.inputs) == batch.targets).all()
