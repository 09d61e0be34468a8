"""Peak memory of methods of many passes on ResNet-50, beside that of a forward pass alone.

    python benchmarks/memory.py

Each line is a process of its own, whose peak resident memory is read when it ends, over that of a process that only
scores the same images in the same batches.
"""

import pathlib
import resource
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from absl import flags  # noqa: E402

import command_line  # noqa: E402

FLAGS = flags.FlagValues()
command_line.define_common_flags(FLAGS, batch_size=2, output=str(pathlib.Path(__file__).with_name("MEMORY.md")))
flags.DEFINE_integer("num_imgs", 2, "images to explain", lower_bound=1, flag_values=FLAGS)
flags.DEFINE_string("child", "", "run this method on --saved_model and print the peak", flag_values=FLAGS)
flags.DEFINE_string("saved_model", "", "SavedModel of the child", flag_values=FLAGS)

# Fewer samples, masks and channels than in earnest: memory does not grow with them, as the last lines show.
RUNS = {
    "forward pass": ("", {}),
    "gradient": ("gradient", {}),
    "Integrated Gradients, 10 points": ("integrated_gradients", {"points": 10}),
    "Integrated Gradients, 50 points": ("integrated_gradients", {"points": 50}),
    "SmoothGrad, 10 samples": ("smoothgrad", {"samples": 10}),
    "SmoothGrad, 50 samples": ("smoothgrad", {"samples": 50}),
    "VarGrad, 10 samples": ("vargrad", {"samples": 10}),
    "RISE, 20 masks": ("rise", {"masks": 20}),
    "RISE, 200 masks": ("rise", {"masks": 200}),
    "Score-CAM, 256 channels": ("score_cam", {"layer": "conv2_block3_out_1"}),
    "Grad-CAM": ("grad_cam", {}),
}


def child(values):
    """Run one method and print the peak resident memory in MB."""
    import numpy as np

    import attribution

    model = attribution.load_model(values.saved_model)
    side = next(iter(model.inputs.values())).shape[1]
    images = np.random.default_rng(0).random((values.num_imgs, side, side, 3), dtype=np.float32)
    name, options = RUNS[values.child]
    if name:
        attribution.explain(name, model, images, batch_size=values.batch_size, **options)
    else:
        model.scores(images, values.batch_size)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main(values):
    """Measure every method in a process of its own."""
    if values.child:
        return child(values)
    import networks

    peaks = {}
    with tempfile.TemporaryDirectory() as directory:
        networks.resnet50().export(directory, verbose=False)
        for label in RUNS:
            command = [sys.executable, __file__, f"--child={label}", f"--saved_model={directory}"]
            command += [f"--batch_size={values.batch_size}", f"--num_imgs={values.num_imgs}"]
            peaks[label] = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            print(f"{label}: {peaks[label]:.0f} MB", file=sys.stderr)
    lines = [
        "# Memory",
        "",
        f"ResNet-50 at 224x224, {values.num_imgs} images, batches of {values.batch_size}; peak memory of a process.",
        "",
        "| run | peak, MB | above the forward pass, MB |",
        "|---|---|---|",
        *(f"| {label} | {peak:.0f} | {peak - peaks['forward pass']:.0f} |" for label, peak in peaks.items()),
    ]
    print("\n".join(lines))
    pathlib.Path(values.output).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    command_line.run(main, FLAGS, __doc__)
