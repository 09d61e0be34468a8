"""Explain the networks of ``networks.py`` by alibi or innvestigate, which need Keras 2; see ``run_cells.py``."""

import functools
import importlib.util
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import networks
import numpy as np
import run_cells


def alibi_cells(network, x, targets, references):
    """Return the cells of alibi; KernelShap's of vectors alone."""
    from alibi.explainers import IntegratedGradients, KernelShap

    def integrated():
        return IntegratedGradients(network).explain(x, target=targets).attributions[0]

    def kernel():
        explainer = KernelShap(lambda rows: np.asarray(network(rows.astype(np.float32))))
        values = np.stack(explainer.fit(references).explain(x, silent=True).shap_values)
        return values[targets, np.arange(len(x))]

    cells = {"integrated_gradients@alibi": integrated}
    return cells if x.ndim > 2 else {**cells, "kernel_shap@alibi": kernel}


_ANALYZERS = {
    "gradient": "Gradient",
    "gradient_x_input": "InputTimesGradient",
    "integrated_gradients": "IntegratedGradients",
    "smoothgrad": "SmoothGrad",
    "lrp_epsilon": "LRPEpsilon",
    "lrp_alpha1beta0": "LRPAlpha1Beta0",
}


def innvestigate_cells(network, x, targets, _):
    """Return the cells of innvestigate."""
    import innvestigate

    def run(name):
        analyzer = getattr(innvestigate.analyzer, name)(network, neuron_selection_mode="index")
        repeats = 50 if name == "SmoothGrad" else 1
        return np.concatenate(
            [
                analyzer.analyze(row[np.newaxis], neuron_selection=int(target))
                for row, target in zip(x, targets, strict=True)
                for _ in range(repeats)
            ]
        )

    return {f"{name}@innvestigate": functools.partial(run, kind) for name, kind in _ANALYZERS.items()}


def cells_of(file):
    """Return the cells of the library that is installed; none of a transformer."""
    x, targets, references = (file[name] for name in ("x", "targets", "references"))
    if x.ndim == 3:
        return {}
    network = networks.architecture(str(file["name"]))
    network.set_weights([file[name] for name in sorted(file.files) if name.startswith("weight_")])
    return {"scores": lambda: network.predict(x, verbose=0), **_CELLS[_LIBRARY](network, x, targets, references)}


_CELLS = {"alibi": alibi_cells, "innvestigate": innvestigate_cells}
_LIBRARY = next(name for name in _CELLS if importlib.util.find_spec(name))

if __name__ == "__main__":
    if _LIBRARY == "innvestigate":
        import tensorflow as tf

        tf.compat.v1.disable_eager_execution()
    run_cells.main(cells_of, [_LIBRARY])
