"""Peak memory of methods of many passes on ResNet-50, beside that of the model's own forward pass.

    python tools/performance/memory.py

Each line is a process of its own, over one that does no more than load the file with TensorFlow and call its
signature on the same images. What is measured is the peak of anonymous resident memory: pages of libraries come and go
with the system's page cache, by more than a hundred megabytes. It is read every few milliseconds, on Linux.
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from absl import flags  # noqa: E402

from attribution import cli  # noqa: E402

FLAGS = flags.FlagValues()
cli.define_common_flags(FLAGS, batch_size=2, output=str(pathlib.Path(__file__).with_name("MEMORY.md")))
flags.DEFINE_integer("num_imgs", 2, "images to explain", lower_bound=1, flag_values=FLAGS)
flags.DEFINE_string("child", "", "run this method on --saved_model and print the peak", flag_values=FLAGS)
flags.DEFINE_string("saved_model", "", "SavedModel of the child", flag_values=FLAGS)

# Fewer samples, masks and channels than in earnest: memory does not grow with them, as pairs of lines show.
SIGNATURE, SCORES = "the file's signature, by TensorFlow", "scores, by this project"
RUNS = {
    SIGNATURE: {},
    SCORES: {},
    "Integrated Gradients, 10 points": {"integrated_gradients": {"points": 10}},
    "Integrated Gradients, 30 points": {"integrated_gradients": {"points": 30}},
    "SmoothGrad, 10 samples": {"smoothgrad": {"samples": 10}},
    "RISE, 20 masks": {"rise": {"masks": 20}},
    "RISE, 100 masks": {"rise": {"masks": 100}},
    "Score-CAM, 64 channels": {"score_cam": {"layer": "conv1_relu_1"}},
    "Score-CAM, 256 channels": {"score_cam": {"layer": "conv2_block3_out_1"}},
    "SISE, 64 channels": {"sise": {"layer": "conv1_relu_1"}},
    "LRP-α1β0": {"lrp_alpha1beta0": {}},
    "seven methods of one pass together": {
        name: {}
        for name in ("gradient", "gradient_x_input", "grad_cam", "grad_cam_plus_plus", "xgrad_cam")
        + ("guided_backprop", "deconvnet")
    },
}


class Peak(threading.Thread):
    """The peak of this process's anonymous resident memory in MB."""

    def __init__(self):
        super().__init__(daemon=True)
        self.found = 0.0
        self._over = threading.Event()

    def run(self):
        while not self._over.wait(0.005):
            self.read()

    def read(self):
        status = pathlib.Path("/proc/self/status").read_text()
        self.found = max(self.found, int(re.search(r"RssAnon:\s*(\d+) kB", status)[1]) / 1024)

    def stop(self):
        self._over.set()
        self.join()
        self.read()
        return self.found


def child(values):
    """Run one method and print the peak in MB."""
    peak = Peak()
    peak.start()
    import numpy as np

    import attribution

    images = np.random.default_rng(0).random((values.num_imgs, 224, 224, 3), dtype=np.float32)
    if values.child == SIGNATURE:
        import tensorflow as tf

        call = tf.saved_model.load(values.saved_model).signatures["serving_default"]
        for start in range(0, len(images), values.batch_size):
            call(tf.constant(images[start : start + values.batch_size]))
    else:
        model = attribution.load_model(values.saved_model)
        if values.child == SCORES:
            model.scores(images, values.batch_size)
        else:
            methods = {name: (name, options) for name, options in RUNS[values.child].items()}
            attribution.explain_many(methods, model, images, batch_size=values.batch_size)
    print(peak.stop())


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
        f"ResNet-50 at 224x224 (102 MB of weights), {values.num_imgs} images, batches of {values.batch_size}; peak "
        "of a process's anonymous memory, TensorFlow and all. Methods share one copy of the weights, and a second one "
        "in which batch normalisation is part of the layers.",
        "",
        "| run | peak, MB | above the signature, MB |",
        "|---|---|---|",
        *(f"| {label} | {peak:.0f} | {peak - peaks[SIGNATURE]:+.0f} |" for label, peak in peaks.items()),
    ]
    print("\n".join(lines))
    pathlib.Path(values.output).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
