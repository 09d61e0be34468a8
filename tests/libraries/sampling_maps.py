"""Explain the networks of ``networks.py`` by lime, dianna or shapiq, which take any function; see ``run_cells.py``.

lime and dianna's lime get the random numbers of this project's ``lime``, and segments of 4 x 4 and of 2 x 2 positions;
dianna's RISE those of ``rise``.
"""

import functools
import importlib.util
import types
import unittest.mock

import numpy as np
import run_cells


def lime_cells(scores, x, targets, file):
    """Return the cells of lime on images, a group's value divided among its positions."""
    from lime.lime_image import LimeImageExplainer

    segments = run_cells.blocks(x.shape[1:3], 4)

    def run():
        maps = []
        for image, target, drawn in zip(x, targets, file["kept_of_few"], strict=True):
            explainer = LimeImageExplainer()
            explainer.random_state = _given(drawn)
            found = explainer.explain_instance(
                image, scores, batch_size=1000, segmentation_fn=lambda _: segments, random_seed=0
            )
            values = dict(found.local_exp[target])
            maps.append(np.array([values[segment] for segment in range(segments.max() + 1)])[segments] / 16)
        return maps

    return {"lime@lime": run}


def _given(kept):
    """Return a generator of 0 and 1 whose first numbers are one explanation's, after those of the input itself."""

    def randint(low, high, size):
        groups = kept.shape[1]
        return np.concatenate([np.zeros((1, groups), int), kept[: size // groups - 1]]).ravel()

    return types.SimpleNamespace(randint=randint)


def dianna_cells(scores, x, targets, file):
    """Return the cells of dianna on images."""
    from dianna.methods.lime_image import LIMEImage
    from dianna.methods.rise_image import RISEImage

    segments = run_cells.blocks(x.shape[1:3], 2)

    def lime():
        maps = []
        for image, target, drawn in zip(x, targets, file["kept"], strict=True):
            method = LIMEImage(random_state=0)
            method.explainer.random_state = _given(drawn)
            options = {"segmentation_fn": lambda _: segments, "random_seed": 0, "batch_size": 1000}
            maps.extend(method.explain(scores, image, [target], **options))
        return maps

    def rise():
        maps = []
        for image, target in zip(x, targets, strict=True):
            offsets = file["rise_offsets"].ravel()
            with (
                unittest.mock.patch("numpy.random.choice", lambda **_: file["rise_cells"]),
                unittest.mock.patch("numpy.random.randint", side_effect=offsets),
            ):
                maps.extend(RISEImage(p_keep=0.5).explain(scores, image, [target]))
        return maps

    return {"lime@dianna": lime, "rise@dianna": rise}


def shapiq_cells(scores, x, targets, _):
    """Return the cells of shapiq on vectors, with a background of zeros and enough budget for 25 permutations."""
    import shapiq

    def of_row(row, target, approximator, budget):
        explainer = shapiq.TabularExplainer(
            lambda rows: scores(rows)[:, target], np.zeros((1, x.shape[1])), imputer="baseline",
            approximator=approximator, index="SV", max_order=1,
        )  # fmt: skip
        return explainer.explain(row[np.newaxis], budget=budget).get_n_order_values(1)

    def run(repeats, *given):
        return [of_row(*case, *given) for case in zip(x, targets, strict=True) for _ in range(repeats)]

    return {
        "kernel_shap@shapiq": functools.partial(run, 1, "auto", 256),
        "shapley_sampling@shapiq": functools.partial(run, run_cells.REPEATS, "permutation", 2 + 25 * 7),
    }


def cells_of(file):
    """Return the cells of the library that is installed."""
    cells, dimensions = _CELLS[_LIBRARY]
    if file["x"].ndim != dimensions:
        return {}
    scores, x = run_cells.score_function(file), file["x"]
    return {"scores": lambda: scores(x), **cells(scores, x, file["targets"].tolist(), file)}


_CELLS = {"dianna": (dianna_cells, 4), "lime": (lime_cells, 4), "shapiq": (shapiq_cells, 2)}
_LIBRARY = next(name for name in _CELLS if importlib.util.find_spec(name))

if __name__ == "__main__":
    run_cells.main(cells_of, [_LIBRARY])
