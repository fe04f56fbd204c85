"""The functions of privmw.h for ctypes, from the capsules of privmw.kernels and their signatures."""

import ctypes as c
import re

import numpy as np

OK, NULL, SIZE, VALUE, RESCALE, RESOURCES, ENTROPY, STUCK, INTERNAL = range(9)


class Column(c.Structure):
    _fields_ = [("codes", c.c_void_p), ("width", c.c_uint32), ("size", c.c_uint32)]


class Words(c.Structure):
    _fields_ = [("state", c.c_void_p), ("next", c.c_void_p)]


KINDS = {
    "int": c.c_int,
    "double": c.c_double,
    "size_t": c.c_size_t,
    "uint32_t": c.c_uint32,
    "uint64_t": c.c_uint64,
    "privmw_status": c.c_int32,
    "privmw_words": Words,
    "void": None,
}


def _kind(text):
    if text == "char const *":
        return c.c_char_p
    return c.c_void_p if "*" in text else KINDS[text]


def c_functions(capsules):
    """Every function by its name."""
    name_of, pointer_of = c.pythonapi.PyCapsule_GetName, c.pythonapi.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = c.c_char_p, [c.py_object]
    pointer_of.restype, pointer_of.argtypes = c.c_void_p, [c.py_object, c.c_char_p]
    functions = {}
    for name, capsule in capsules.items():
        signature = name_of(capsule)
        result, arguments = re.fullmatch(r"(.*?) ?\((.*)\)", signature.decode()).groups()
        kinds = [_kind(text) for text in arguments.split(", ") if text != "void"]
        functions[name] = c.CFUNCTYPE(_kind(result), *kinds)(pointer_of(capsule, signature))
    return functions


def pointer(array):
    """The address of an array's first value; of None, null."""
    return None if array is None else array.ctypes.data


def c_columns(codes, sizes):
    """An array of privmw_column; the codes must outlive it."""
    return (Column * len(codes))(
        *(Column(pointer(a), a.itemsize, size) for a, size in zip(codes, sizes, strict=True))
    )


def draw_table(seed, rows=500, sizes=(10, 2, 300, 5)):
    """Codes with a common value in each column, and their sizes."""
    rng = np.random.default_rng(seed)
    kinds = [np.uint8 if size <= 256 else np.uint16 for size in sizes]
    return [
        np.minimum(rng.integers(0, size, rows), rng.integers(0, size, rows)).astype(kind)
        for size, kind in zip(sizes, kinds, strict=True)
    ], list(sizes)
