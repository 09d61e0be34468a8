"""What a served model takes and gives, as the server describes it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

# The numbers and names of TensorFlow's types that can be asked for here. Strings are Python objects.
DTYPES: dict[str, np.dtype] = {
    "DT_FLOAT": np.dtype(np.float32),
    "DT_DOUBLE": np.dtype(np.float64),
    "DT_HALF": np.dtype(np.float16),
    "DT_INT8": np.dtype(np.int8),
    "DT_INT16": np.dtype(np.int16),
    "DT_INT32": np.dtype(np.int32),
    "DT_INT64": np.dtype(np.int64),
    "DT_UINT8": np.dtype(np.uint8),
    "DT_UINT16": np.dtype(np.uint16),
    "DT_UINT32": np.dtype(np.uint32),
    "DT_UINT64": np.dtype(np.uint64),
    "DT_BOOL": np.dtype(bool),
    "DT_STRING": np.dtype(object),
}


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """Type and shape of an input or output.

    Attributes
    ----------
    dtype
        NumPy type; ``object`` stands for strings, ``None`` for a type that cannot be asked for here.
    shape
        Sizes, ``None`` where any is allowed, the batch axis first; ``None`` where not even the rank is known.
    """

    dtype: np.dtype | None
    shape: tuple[int | None, ...] | None

    @property
    def is_float(self) -> bool:
        """Whether the values are of floating point, so that there can be a gradient."""
        return self.dtype is not None and self.dtype.kind == "f"

    def allows(self, shape: tuple[int, ...]) -> bool:
        """Return whether an array of this shape fits."""
        if self.shape is None:
            return True
        return len(shape) == len(self.shape) and all(
            wanted in (None, size) for wanted, size in zip(self.shape, shape, strict=True)
        )

    def allows_rows(self, shape: tuple[int, ...]) -> bool:
        """Return whether an array of this shape fits but for its number of rows."""
        return self.shape is None or self.allows((self.shape[0], *shape[1:]))

    def shown(self) -> str:
        """Return the shape as words, such as ``(any, 128, 128, 3)``."""
        if self.shape is None:
            return "any shape"
        return "(" + ", ".join("any" if size is None else str(size) for size in self.shape) + ")"


@dataclasses.dataclass(frozen=True)
class Signature:
    """One thing a served model can be asked: names of inputs and outputs to their ``TensorSpec``."""

    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]


def signature_of(plain: Mapping) -> Signature:
    """Return a signature from its JSON form, which both protocols can give.

    Parameters
    ----------
    plain
        ``{"inputs": {name: {"dtype": "DT_FLOAT", "tensor_shape": {"dim": [{"size": "-1"}, ...]}}}, "outputs": ...}``;
        unknown keys are passed over.
    """
    return Signature(
        *({name: _spec(info) for name, info in sorted(plain.get(kind, {}).items())} for kind in ("inputs", "outputs"))
    )


def _spec(info: Mapping) -> TensorSpec:
    shape = info.get("tensor_shape", {})
    sizes = [int(dim.get("size", 0)) for dim in shape.get("dim", [])]
    unknown = shape.get("unknown_rank", False)
    return TensorSpec(
        DTYPES.get(info.get("dtype", "")),
        None if unknown else tuple(None if size < 0 else size for size in sizes),
    )
