"""Compare maps with PyTorch's on identical weights, and write docs/oracles.md.

    python tools/performance/oracles.py

makes .venv-oracles with PyTorch, zennit and captum (1 GB; --environment=DIR names one that exists), draws small
networks, explains them here from their SavedModels and there from the same weights, and writes how far the maps are
apart. Takes two minutes.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

ROOT = pathlib.Path(__file__).resolve().parents[2]
REQUIRED = ["torch==2.13.0", "captum==0.9.0", "numpy>=1.26", "pillow", "scikit-learn"]
WITHOUT_DEPENDENCIES = ["zennit==0.5.1"]  # it asks for torchvision, which is not needed here
ROWS = 4
TARGET = 1
ZENNIT, CAPTUM = "zennit 0.5.1", "captum 0.9.0"
WORDS = [0, 0, 1, 2, 3]
PATCHES = [[3 * (row // 4) + column // 4 for column in range(12)] for row in range(12)]
BY_HAND = "the published rules, written out in PyTorch"
CONSTANTS = "input times gradient with the constants detached, in PyTorch"
# (network, method, its parameters, name of the oracle's map, whose it is)
COMPARISONS = [
    ("linear", "shapley_sampling", {"permutations": 1}, "sampling", CAPTUM),
    ("linear", "kernel_shap", {"samples": 20}, "kernel_shap", CAPTUM),
    ("linear", "lime", {"ridge": 0.0}, "lime", CAPTUM),
    ("table", "kernel_shap", {}, "shapley", CAPTUM),
    ("table", "kernel_shap", {"groups": WORDS}, "shapley_of_groups", CAPTUM),
    ("table", "occlusion", {"groups": WORDS}, "ablation", CAPTUM),
    ("mlp", "gradient", {}, "gradient", CAPTUM),
    ("mlp", "gradient_x_input", {}, "gradient_x_input", CAPTUM),
    ("mlp", "guided_backprop", {}, "guided_backprop", CAPTUM),
    ("mlp", "deconvnet", {}, "deconvnet", CAPTUM),
    ("mlp", "lrp_epsilon", {"epsilon": 1e-3}, "epsilon", ZENNIT),
    ("mlp", "lrp_alpha1beta0", {}, "z_plus", ZENNIT),
    ("mlp", "lrp_gamma", {}, "gamma", ZENNIT),
    ("mlp", "lrp_epsilon_plus_flat", {}, "epsilon_plus_flat", ZENNIT),
    ("mlp", "excitation_backprop", {}, "excitation", ZENNIT),
    ("cnn", "gradient", {}, "gradient", CAPTUM),
    ("cnn", "guided_backprop", {}, "guided_backprop", CAPTUM),
    ("cnn", "deconvnet", {}, "deconvnet", CAPTUM),
    ("cnn", "lrp_epsilon", {"epsilon": 1e-3}, "epsilon", ZENNIT),
    ("cnn", "lrp_epsilon_plus", {}, "epsilon_plus", ZENNIT),
    ("cnn", "lrp_alpha1beta0", {}, "z_plus", ZENNIT),
    ("cnn", "lrp_gamma", {}, "gamma", ZENNIT),
    ("cnn", "lrp_epsilon_gamma_box", {}, "epsilon_gamma_box", ZENNIT),
    ("cnn", "lrp_epsilon_plus_flat", {}, "epsilon_plus_flat", ZENNIT),
    ("cnn", "full_grad", {}, "full_grad", BY_HAND),
    ("cnn", "occlusion", {"groups": PATCHES}, "ablation", CAPTUM),
    ("residual", "lrp_epsilon", {}, "epsilon", f"{ZENNIT}, which shares sums otherwise"),
    ("residual", "lrp_epsilon_plus", {}, "epsilon_plus", ZENNIT),
    ("residual", "lrp_alpha1beta0", {}, "z_plus", ZENNIT),
    ("residual", "lrp_gamma", {}, "gamma", ZENNIT),
    ("residual", "lrp_epsilon_gamma_box", {}, "epsilon_gamma_box", ZENNIT),
    ("residual", "lrp_epsilon_plus_flat", {}, "epsilon_plus_flat", ZENNIT),
    ("residual", "full_grad", {}, "full_grad", BY_HAND),
    ("residual", "lrp_epsilon_plus", {"sums": "joint"}, "epsilon_plus", f"{ZENNIT}, which shares sums otherwise"),
    ("transformer", "gradient", {}, "gradient", CAPTUM),
    ("transformer", "lrp_cp", {"epsilon": 0.0}, "detached", CONSTANTS),
    ("transformer", "lrp_cp", {"epsilon": 1e-3, "stabiliser": "absolute"}, "cp", BY_HAND),
    ("transformer", "lrp_attn", {"epsilon": 1e-3, "stabiliser": "absolute"}, "attn", BY_HAND),
]


def build():
    """Return the networks by name, with random weights and statistics."""
    import keras
    import numpy as np

    layers = keras.layers

    def table():
        return keras.Sequential([keras.Input((5,)), layers.Dense(16, activation="tanh"), layers.Dense(4)])

    def mlp():
        hidden = [layers.Dense(16, activation="relu") for _ in range(2)]
        return keras.Sequential([keras.Input((12,)), *hidden, layers.Dense(4)])

    def block(x, channels, stride):
        return layers.BatchNormalization()(layers.Conv2D(channels, 3, stride, padding="valid")(x))

    def cnn():
        image = keras.Input((12, 12, 3))
        x = layers.MaxPooling2D(2)(layers.ReLU()(block(image, 8, 1)))
        x = layers.GlobalAveragePooling2D()(layers.ReLU()(block(x, 8, 1)))
        return keras.Model(image, layers.Dense(4)(x))

    def residual():
        image = keras.Input((12, 12, 3))
        x = layers.ReLU()(block(image, 8, 1))
        y = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(8, 3, padding="same")(x)))
        y = layers.BatchNormalization()(layers.Conv2D(8, 3, padding="same")(y))
        shortcut = layers.BatchNormalization()(layers.Conv2D(8, 1)(x))
        x = layers.GlobalAveragePooling2D()(layers.ReLU()(layers.Add()([y, shortcut])))
        return keras.Model(image, layers.Dense(4)(x))

    def transformer():
        image = keras.Input((8, 8, 3))
        x = layers.Reshape((4, 8))(layers.Conv2D(8, 4, strides=4)(image))
        y = layers.LayerNormalization(epsilon=1e-5)(x)
        x = layers.Add()([x, layers.MultiHeadAttention(2, 4)(y, y)])
        y = layers.LayerNormalization(epsilon=1e-5)(x)
        x = layers.Add()([x, layers.Dense(8)(layers.Dense(12, activation="gelu")(y))])
        x = layers.GlobalAveragePooling1D()(layers.LayerNormalization(epsilon=1e-5)(x))
        return keras.Model(image, layers.Dense(4)(x))

    networks = {"mlp": mlp(), "cnn": cnn(), "residual": residual(), "transformer": transformer(), "table": table()}
    networks["linear"] = keras.Sequential([keras.Input((5,)), layers.Dense(4)])  # last: weights are drawn in order
    generator = np.random.default_rng(0)
    for network in networks.values():
        for variable in network.variables:
            if "int" not in str(variable.dtype):
                values = generator.normal(0, 0.4, variable.shape)
                variable.assign(abs(values) + 0.5 if "variance" in variable.path else values)
    return networks


def explain_here(networks, folder):
    """Write inputs and weights for PyTorch; return our maps, one for each comparison, and the scores."""
    import numpy as np

    import attribution

    models, inputs = {}, {}
    generator = np.random.default_rng(1)
    for name, network in networks.items():
        network.export(folder / name, verbose=False)
        models[name] = attribution.load_model(folder / name)
        inputs[name] = generator.random((ROWS, *network.input_shape[1:]), dtype=np.float32)
        weights = {f"weight_{number:02}": weight for number, weight in enumerate(network.get_weights())}
        np.savez(folder / f"{name}.npz", x=inputs[name], target=TARGET, **weights)
    maps = [
        attribution.explain(method, models[name], inputs[name], TARGET, **options)
        for name, method, options, _, _ in COMPARISONS
    ]
    return maps, {name: model.scores(inputs[name]) for name, model in models.items()}


def table(maps, scores, oracles) -> str:
    """Return the page; oracles: network -> name -> map."""
    import numpy as np

    def apart(ours, theirs):
        return np.abs(ours - theirs).max() / np.abs(theirs).max()

    lines = [
        "# Maps against PyTorch",
        "",
        "<!-- Generated by `python tools/performance/oracles.py`; do not edit. -->",
        "",
        "Small networks with random weights and",
        f"random statistics of batch normalization, {ROWS} inputs each, the same weights in both. The last column is",
        "the largest difference between two maps, as a share of the oracle's largest value; both compute in float32.",
        "",
        "| network | method | parameters | oracle | difference |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {name} | scores |  | PyTorch | {apart(scores[name], oracles[name]['scores']):.1e} |" for name in scores
    ]
    for ours, (name, method, options, key, oracle) in zip(maps, COMPARISONS, strict=True):
        options = options | ({"groups": "patches of 4 x 4"} if options.get("groups") is PATCHES else {})
        shown = ", ".join(f"`{option}={value!r}`" for option, value in options.items())
        lines.append(f"| {name} | `{method}` | {shown} | {oracle} | {apart(ours, oracles[name][key]):.1e} |")
    return "\n".join(lines) + "\n"


def main():
    """Make the environment, compute both sides, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environment", type=pathlib.Path, default=ROOT / ".venv-oracles")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "docs" / "oracles.md")
    arguments = parser.parse_args()
    python = arguments.environment / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(arguments.environment)], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, *REQUIRED], check=True)
        subprocess.run([*pip, "--no-deps", *WITHOUT_DEPENDENCIES], check=True)
    import numpy as np

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        maps, scores = explain_here(build(), folder)
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        script = ROOT / "tools" / "performance" / "oracles_torch.py"
        subprocess.run([str(python), str(script), str(folder)], check=True, env=environment)
        oracles = {name: dict(np.load(folder / f"{name}_oracle.npz")) for name in scores}
    arguments.output.write_text(table(maps, scores, oracles), encoding="utf-8")


if __name__ == "__main__":
    main()
