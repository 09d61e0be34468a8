"""The operations that have a relevance rule, by kind. All others are refused by name."""

from typing import Any

# End of the message that an operation has no rule.
WITHOUT_RULES = "; 'integrated_gradients', 'smoothgrad', 'kernel_shap' and 'occlusion' need no rules"
CONVOLUTIONS = ("Conv2D", "DepthwiseConv2dNative", "Conv3D", "Conv2DBackpropInput", "Conv3DBackpropInputV2")
MATRIX_PRODUCTS = ("MatMul", "BatchMatMulV2", "BatchMatMul", "BatchMatMulV3", "Einsum")
LAYERS = CONVOLUTIONS + MATRIX_PRODUCTS
# Linear, with constant positive weights.
AVERAGES = (
    "Mean", "Sum", "AvgPool", "AvgPool3D", "ResizeBilinear", "SegmentSum", "UnsortedSegmentSum", "Cumsum",
)  # fmt: skip
SUMS = ("Add", "AddV2", "AddN", "Sub", "BiasAdd")
# Every value of the output is a value of the first input.
MOVES = (
    "Identity", "Reshape", "Squeeze", "ExpandDims", "Transpose", "Tile", "BroadcastTo", "Slice", "StridedSlice",
    "Gather", "GatherV2", "BatchToSpaceND", "DepthToSpace", "SpaceToDepth", "ReverseV2", "Roll",
)  # fmt: skip
# Every value of the output is a value of an input, or a constant that absorbs its relevance.
SELECTS = (
    "MaxPool", "MaxPoolV2", "MaxPool3D", "Max", "Min", "Pad", "PadV2", "MirrorPad", "SpaceToBatchND",
    "ConcatV2", "Concat", "Pack", "Unpack", "Split", "SplitV", "GatherNd", "ExtractImagePatches",
    "ResizeNearestNeighbor", "Select", "SelectV2", "Maximum", "Minimum", "ClipByValue", "TopKV2",
)  # fmt: skip
SCALES = ("Mul", "RealDiv")
NORMALIZATIONS = ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")  # by constants
# Elementwise, 0 at 0, of the sign of their input. Others are recognised by that law: see ``activations.py``.
ACTIVATIONS = ("Relu", "Relu6", "LeakyRelu", "Elu", "Selu", "Tanh")


def factors(operation: Any) -> tuple[int, int]:
    """Return the positions of a product's two factors among its inputs, values before weights."""
    return (2, 1) if operation.type in ("Conv2DBackpropInput", "Conv3DBackpropInputV2") else (0, 1)
