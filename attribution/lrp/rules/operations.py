"""The operations that have a relevance rule, by what they do. What stands in no list here is refused by name."""

from typing import Any

CONVOLUTIONS = ("Conv2D", "DepthwiseConv2dNative", "Conv3D", "Conv2DBackpropInput", "Conv3DBackpropInputV2")
MATRIX_PRODUCTS = ("MatMul", "BatchMatMulV2", "BatchMatMul", "BatchMatMulV3", "Einsum")
LAYERS = CONVOLUTIONS + MATRIX_PRODUCTS
# Linear, with positive weights of their own.
AVERAGES = ("Mean", "Sum", "AvgPool", "AvgPool3D", "ResizeBilinear")
SUMS = ("Add", "AddV2", "AddN", "Sub", "BiasAdd")
# Every value of the output is a value of the first input.
MOVES = (
    "Identity", "Reshape", "Squeeze", "ExpandDims", "Transpose", "Tile", "BroadcastTo", "Slice", "StridedSlice",
    "Gather", "GatherV2", "BatchToSpaceND", "DepthToSpace", "SpaceToDepth", "ReverseV2", "Roll",
)  # fmt: skip
# Every value of the output is a value of an input, or a constant that takes what reaches it.
SELECTS = (
    "MaxPool", "MaxPoolV2", "MaxPool3D", "Max", "Min", "Pad", "PadV2", "MirrorPad", "SpaceToBatchND",
    "ConcatV2", "Concat", "Pack", "Unpack", "Split", "SplitV", "GatherNd", "ExtractImagePatches",
    "ResizeNearestNeighbor", "Select", "SelectV2", "Maximum", "Minimum", "ClipByValue",
)  # fmt: skip
SCALES = ("Mul", "RealDiv")
NORMALISATIONS = ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")  # by constants
# Elementwise, 0 at 0, of the sign of their input. Others are recognised by that law: see ``activations.py``.
ACTIVATIONS = ("Relu", "Relu6", "LeakyRelu", "Elu", "Selu", "Tanh")


def factors(operation: Any) -> tuple[int, int]:
    """Return at which places a product has its two factors, values before weights."""
    return (2, 1) if operation.type in ("Conv2DBackpropInput", "Conv3DBackpropInputV2") else (0, 1)
