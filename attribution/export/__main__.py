r"""Put explanations into a SavedModel, so that any TensorFlow Serving answers them with nothing installed beside it.

    python -m attribution.export --model=saved_models/bim/obj --output=served/bim_obj \
        --methods=gradient,integrated_gradients,guided_backprop,grad_cam

The new file has the model's own signatures and, for each method, ``explain_<method>``. Into it go the model's own
inputs and ``targets``, one whole number per row: the class to explain, or -1 for the predicted one (a signature's
input cannot be left out). Out come ``map``, of the shape that attribution.explain gives, ``target``, the class that
was explained, and ``score``, the model's score of it. Maps equal the local ones to 1e-5 of their largest value, or to
what rounding the inputs another way changes in the local map where that is more; this is tried on two random inputs
before anything is written. A method that misses it, or that the model does not allow, is skipped with a line that
names the reason; the others are written.

Three more signatures let a client compute other methods from the model's answers: ``explanation_scores`` (the scores
that are explained, of all classes), ``explanation_layer`` (values and gradients that class activation maps are made
of, where one was exported) and ``explanation_sheet`` (which methods with which parameters, as JSON).

Methods that only combine gradients and relevance can be exported, Integrated Gradients, DeepLIFT and Grad-CAM, and
custom methods that use only their queries and TensorFlow. A client computes RISE and occlusion from scores,
SmoothGrad and VarGrad from served gradients.

Cost: 13 CPU seconds and 1 GB for a network of BIM with four methods.
"""

from __future__ import annotations

import sys

from absl import flags

from attribution import cli
from attribution.errors import BadInput, print_line
from attribution.export import _by_signature, _version_directory, export
from attribution.export.signatures import EXPLAIN
from attribution.methods.registry import with_parameters

FLAGS = flags.FlagValues()
cli.define_common_flags(
    FLAGS,
    methods=["gradient", "integrated_gradients", "guided_backprop", "grad_cam"],
    parameters=[],
    model="",
    output="",
    score=None,
    signature="",
    explain_input="",
)
FLAGS["output"].help = "directory to write to, a served model's base path: the file becomes version 1 in it, or the "
FLAGS["output"].help += "directory itself where that has a number for a name, as in served/obj/2"
flags.DEFINE_string(
    "layer",
    "",
    "layer of the class activation maps; the last one before pooling and head when empty",
    flag_values=FLAGS,
)


def main(flag_values: flags.FlagValues) -> None:
    """Write the file and print how far each served map is from the local one."""
    for name in ("model", "output"):
        if not flag_values[name].value:
            raise BadInput(f"--{name} is empty; name a directory")
    methods = cli.with_flags(with_parameters(_by_signature(flag_values.methods)), flag_values)
    left_out: dict[str, str] = {}
    differences = export(
        flag_values.model, flag_values.output, methods, score=flag_values.score,
        signature=flag_values.signature or None, explain_input=flag_values.explain_input or None, left_out=left_out,
    )  # fmt: skip
    for reason in [*left_out.values(), *[cli.inspect_hint(flag_values.model)] * bool(left_out)]:
        print_line(reason, file=sys.stderr)
    width = max(len(label) for label in differences)
    for label, difference in differences.items():
        print_line(
            f"{EXPLAIN}{label.ljust(width)}  differs from the local map by {difference:.1e} of its largest value"
        )
    print_line(f"written to {_version_directory(flag_values.output)}")


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
