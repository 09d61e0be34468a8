"""Object masks on disk: bits in an .npz file, or the authors' pickled file, read without running its code.

A mask has the shape of the object as it was cut out, before it was resized into its box. The authors' file
``val_mask`` is a pickled array of Python objects. Unpickling can call any function, so only the constructors of NumPy
arrays are allowed.
"""

from __future__ import annotations

import base64
import os
import pickle

import numpy as np

from attribution.errors import BadInput
from attribution.files import atomic_write
from attribution.reading import opened, read_arrays

MOST_BYTES = 1 << 28  # of a mask file, unpacked; the authors' masks have some 10 MB
MOST_SIDE = 1 << 15  # pixels
# The constructors NumPy's own pickles name, under the module paths of its 1.x and 2.x versions.
_ALLOWED = {
    *((f"numpy.{core}.multiarray", name) for core in ("core", "_core") for name in ("_reconstruct", "scalar")),
    *((f"numpy.{core}.numeric", "_frombuffer") for core in ("core", "_core")),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("_codecs", "encode"),
}


def save_masks(path: str, masks, keys) -> None:
    """Write masks of different shapes, (h, w) bool each, as packed bits without pickles.

    ``keys`` are as many names, ``layout.mask_key`` of object and number: a mask is found by it, whatever else a set
    holds.
    """
    shapes = np.array([mask.shape for mask in masks], np.int32).reshape(-1, 2)
    bits = np.packbits(np.concatenate([np.ravel(mask) for mask in masks]).astype(bool))
    atomic_write(path, lambda file: np.savez(file, bits=bits, shapes=shapes, keys=np.array(keys, "U64")), durable=False)


def packed(mask: np.ndarray) -> list:
    """Return a (h, w) bool mask as plain JSON: its height, its width, and its bits in base 64."""
    return [*mask.shape, base64.b64encode(np.packbits(mask)).decode()]


def unpacked(record: list) -> np.ndarray:
    """Return the mask that ``packed`` wrote down."""
    height, width, bits = record
    flat = np.unpackbits(np.frombuffer(base64.b64decode(bits), np.uint8), count=height * width)
    return flat.reshape(height, width).astype(bool)


def load_masks(folder: str) -> tuple[list[np.ndarray], list[str] | None]:
    """Read the masks of a set, (h, w) bool each, from ``val_mask.npz``, or from the authors' pickled ``val_mask``.

    Also returns their names; None where the file has none, as the authors' has not. There are a hundred of each object
    class then, in the order of the images' numbers, classes in alphabetical order. Raises ``BadInput`` if neither file
    exists, or the pickled one needs anything beyond NumPy arrays.
    """
    safe, pickled = os.path.join(folder, "val_mask.npz"), os.path.join(folder, "val_mask")
    if os.path.lexists(safe):
        try:
            return _unpacked(read_arrays(safe, MOST_BYTES))
        except (BadInput, ValueError, TypeError, KeyError) as error:
            raise BadInput(f"{safe} is damaged ({error}); construct the sets again") from error
    if not os.path.exists(pickled):
        raise BadInput(f"no masks in {folder}; expected val_mask.npz, or val_mask as the authors released it")
    with opened(pickled, "mask file") as file:
        array = _read_pickled(file, pickled)
    try:
        masks = [np.asarray(mask).astype(bool) for mask in array]
    except (TypeError, ValueError, MemoryError) as error:
        raise BadInput(f"{pickled} holds no sequence of masks ({error})") from error
    if any(mask.ndim != 2 for mask in masks):
        raise BadInput(f"{pickled} holds no masks of two axes, (height, width) each")
    return masks, None


def _unpacked(arrays: dict[str, np.ndarray]) -> tuple[list[np.ndarray], list[str] | None]:
    """Return the masks and their names from the arrays of a file."""
    shapes, bits = arrays["shapes"].astype(np.int64), arrays["bits"]
    if shapes.ndim != 2 or shapes.shape[1] != 2 or ((shapes < 1) | (shapes > MOST_SIDE)).any():
        raise ValueError("its shapes are not those of masks")
    sizes = shapes.prod(axis=1)
    if bits.dtype != np.uint8 or bits.shape != (-(-int(sizes.sum()) // 8),):
        raise ValueError("its number of bits does not match its shapes")
    parts = np.split(np.unpackbits(bits, count=int(sizes.sum())).astype(bool), np.cumsum(sizes)[:-1])
    masks = list(map(np.reshape, parts, shapes))
    if "keys" not in arrays:
        return masks, None
    keys = list(map(str, arrays["keys"].tolist()))
    if not len(set(keys)) == len(keys) == len(masks):
        raise ValueError(f"it has {len(masks)} masks under {len(set(keys))} names")
    return masks, keys


_BROKEN_PICKLE = (  # raised by unpickling random bytes
    pickle.UnpicklingError, EOFError, OSError, ValueError, TypeError, KeyError, IndexError, AttributeError,
    MemoryError, OverflowError, RecursionError, ImportError, NotImplementedError,
)  # fmt: skip


class _NotAllowed(pickle.UnpicklingError):
    """A pickle names something beyond NumPy arrays."""


class _ArrayUnpickler(pickle.Unpickler):
    """An unpickler that rebuilds NumPy arrays and calls nothing else."""

    def find_class(self, module, name):
        if (module, name) not in _ALLOWED:
            raise _NotAllowed(f"{module}.{name}")
        return super().find_class(module, name)


def _read_pickled(file, path: str):
    """Return the array of a pickled file, or of an .npy file that holds objects."""
    try:
        if file.read(6) == b"\x93NUMPY":
            version = np.lib.format.read_magic(_rewound(file))
            reader = getattr(np.lib.format, f"read_array_header_{version[0]}_0")
            shape, fortran, dtype = reader(file)
            if not dtype.hasobject:
                return np.load(_rewound(file), allow_pickle=False)
            array = _ArrayUnpickler(file, encoding="latin1").load()
            return array.reshape(shape, order="F" if fortran else "C")
        return _ArrayUnpickler(_rewound(file), encoding="latin1").load()
    except _NotAllowed as error:
        raise BadInput(f"{path} needs {error}; only NumPy arrays are allowed in a mask file") from error
    except _BROKEN_PICKLE as error:
        raise BadInput(f"{path} is damaged ({type(error).__name__}); fetch it again") from error


def _rewound(file):
    """Return the file at its beginning."""
    file.seek(0)
    return file
