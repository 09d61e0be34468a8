"""Object masks on disk: bits in an .npz file; the authors' pickled file read without running its code.

A mask has the shape of the object as it was cut out, before it was resized into its box. The authors' file
``val_mask`` is a pickled array of Python objects; unpickling lets a file call any function, so only what
rebuilds NumPy arrays is admitted here.
"""

from __future__ import annotations

import os
import pickle
import zipfile
import zlib

import numpy as np

from attribution_benchmarks.command_line import BadInput, write_whole

# The constructors NumPy's own pickles name, under the module paths of its 1.x and 2.x versions.
_ADMITTED = {
    *((f"numpy.{core}.multiarray", name) for core in ("core", "_core") for name in ("_reconstruct", "scalar")),
    *((f"numpy.{core}.numeric", "_frombuffer") for core in ("core", "_core")),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("_codecs", "encode"),
}


def save_masks(path: str, masks) -> None:
    """Write masks of different shapes, (h, w) bool each, as packed bits without pickles.

    Parameters
    ----------
    path
        File to write, ``val_mask.npz`` in BIM's sets.
    masks
        Sequence of (h, w) bool arrays.
    """
    shapes = np.array([mask.shape for mask in masks], np.int32).reshape(-1, 2)
    bits = np.packbits(np.concatenate([np.ravel(mask) for mask in masks]).astype(bool))
    write_whole(path, lambda file: np.savez(file, bits=bits, shapes=shapes), durable=False)


def load_masks(folder: str) -> list[np.ndarray]:
    """Read the masks of a set from ``val_mask.npz``, or from the authors' pickled ``val_mask``.

    Parameters
    ----------
    folder
        The set's folder.

    Returns
    -------
    list of numpy.ndarray
        (h, w) bool each: a hundred (or as many as the set has) per object class, classes in alphabetical
        order.

    Raises
    ------
    BadInput
        If neither file is there, or the pickled one asks for anything beyond NumPy arrays.
    """
    safe, pickled = os.path.join(folder, "val_mask.npz"), os.path.join(folder, "val_mask")
    if os.path.exists(safe):
        try:
            with np.load(safe, allow_pickle=False) as file:
                shapes, bits = file["shapes"], file["bits"]
            sizes = shapes.prod(axis=1)
            flat = np.unpackbits(bits, count=int(sizes.sum())).astype(bool)
            parts = np.split(flat, np.cumsum(sizes)[:-1])
            return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]
        except (OSError, EOFError, ValueError, TypeError, KeyError, zipfile.BadZipFile, zlib.error) as error:
            raise BadInput(f"{safe} is damaged ({error}); construct the sets anew") from error
    if not os.path.exists(pickled):
        raise BadInput(f"no masks in {folder}; expected val_mask.npz, or val_mask as the authors released it")
    with open(pickled, "rb") as file:
        array = _read_pickled(file, pickled)
    try:
        masks = [np.asarray(mask).astype(bool) for mask in array]
    except (TypeError, ValueError) as error:
        raise BadInput(f"{pickled} holds no sequence of masks ({error})") from error
    if any(mask.ndim != 2 for mask in masks):
        raise BadInput(f"{pickled} holds no masks of two axes, (height, width) each")
    return masks


_BROKEN_PICKLE = (  # what unpickling of bytes at random raises
    pickle.UnpicklingError, EOFError, OSError, ValueError, TypeError, KeyError, IndexError, AttributeError,
)  # fmt: skip


class _NotAdmitted(pickle.UnpicklingError):
    """A pickle names something beyond NumPy arrays."""


class _ArrayUnpickler(pickle.Unpickler):
    """An unpickler that rebuilds NumPy arrays and calls nothing else."""

    def find_class(self, module, name):
        if (module, name) not in _ADMITTED:
            raise _NotAdmitted(f"{module}.{name}")
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
    except _NotAdmitted as error:
        raise BadInput(f"{path} asks for {error}; only NumPy arrays are admitted in a mask file") from error
    except _BROKEN_PICKLE as error:
        raise BadInput(f"{path} is damaged ({type(error).__name__}); fetch it again") from error


def _rewound(file):
    """Return the file at its beginning."""
    file.seek(0)
    return file
