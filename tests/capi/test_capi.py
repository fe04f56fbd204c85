"""privmw.h gives the answers of numpy and of privmw.kernels; what is wrong is a status, never a crash."""

import ctypes as c
import itertools
import os
import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privmw
from capi.c_functions import (
    NULL,
    OK,
    RESCALE,
    RESOURCES,
    SIZE,
    STUCK,
    VALUE,
    Column,
    Words,
    c_columns,
    c_functions,
    draw_table,
    pointer,
)
from privmw import kernels
from privmw.kernels import draws

_native = pytest.importorskip("privmw.kernels._native", reason="privmw was installed without a compiler")

ROOT = Path(__file__).parents[2]
HEADER = ROOT / "csrc" / "capi" / "privmw.h"
C = c_functions(kernels.__pyx_capi__)
ATTRIBUTES, STARTS = np.array([0, 1, 0, 2, 1, 2, 3, 3], np.int32), np.array([0, 2, 4, 7, 8])


class Handles:
    """Columns and marginals of a table, freed in the order that is harder for them."""

    def __init__(self, codes, sizes):
        self.codes, self.sizes, self.rows = codes, sizes, len(codes[0])
        self.given = c_columns(codes, sizes)
        self.columns, self.marginals, cells = c.c_void_p(), c.c_void_p(), c.c_size_t()
        made = C["privmw_columns_new"](self.given, len(codes), self.rows, 2, c.addressof(self.columns))
        assert made == OK
        arguments = self.columns, pointer(ATTRIBUTES), pointer(STARTS), len(STARTS) - 1, 2
        assert C["privmw_marginals_new"](*arguments, c.addressof(self.marginals)) == OK
        assert C["privmw_marginals_cells"](self.marginals, c.addressof(cells)) == OK
        self.cells = cells.value

    def __enter__(self):
        return self

    def __exit__(self, *_):
        C["privmw_columns_free"](self.columns)
        C["privmw_marginals_free"](self.marginals)


@pytest.fixture(scope="module")
def handles():
    with Handles(*draw_table(1)) as made:
        yield made


def numpy_sums(codes, sizes, masses):
    found = []
    for first, end in pairwise(STARTS):
        which = ATTRIBUTES[first:end]
        shape = [sizes[a] for a in which]
        cell = np.ravel_multi_index([codes[a] for a in which], shape)
        sums = np.zeros(int(np.prod(shape)), np.int64)
        np.add.at(sums, cell, masses)
        found.append(sums)
    return np.concatenate(found)


def written(value=0):
    return c.c_int64(value)


# ---- the same answers ----


def test_the_version_is_that_of_the_package():
    assert C["privmw_version"]().decode() == privmw.__version__
    assert C["privmw_abi"]() == 65536
    header = HEADER.read_text()
    assert re.search(r"PRIVMW_ABI_MAJOR 1\n.*PRIVMW_ABI_MINOR 0\n", header)
    texts = [C["privmw_message"](status).decode() for status in range(-1, 11)]
    assert texts[0] == texts[-1] == texts[-2] == "unknown status"
    assert len(set(texts)) == 10


def test_the_header_the_capsules_and_the_pxd_declare_the_same_functions():
    def normal(text):
        text = re.sub(r"const (\w+)", r"\1 const", text)
        return re.sub(r"\s*(\*+)\s*", r" \1", " ".join(text.split()))

    def functions(text, pattern):
        found = {}
        for result, name, arguments in re.findall(pattern, text, re.S):
            arguments = re.sub(r"(\w+) (\w+)\[5\]", r"\1* \2", " ".join(arguments.split()))
            kinds = [re.sub(r"\w+$", "", argument).strip() for argument in arguments.split(", ") if argument]
            found[name] = normal(result), *(normal(kind) for kind in kinds if kind)
        return found

    bare = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.S)
    header = functions(bare, r"PRIVMW_API ([\w *]+?) ?(privmw_\w+)\(([^)]*)\)\s*PRIVMW_NOEXCEPT;")
    pxd = (ROOT / "privmw" / "kernels.pxd").read_text()
    assert functions(pxd, r"cdef ([\w *]+?) ?(privmw_\w+)\(([^)]*)\) noexcept nogil") == header
    signatures = {}
    for name, capsule in kernels.__pyx_capi__.items():
        signature = re.search(r'"(.*)"', repr(capsule))[1]
        result, arguments = re.fullmatch(r"(.*?) ?\((.*)\)", signature).groups()
        kinds = [normal(kind) for kind in arguments.split(", ") if kind != "void"]
        signatures[name] = normal(result), *kinds
    assert signatures == header
    assert len(header) == 27


@pytest.mark.parametrize("language", ["c11", "c++20"])
def test_the_header_compiles_without_a_warning(language, tmp_path):
    compiler = shutil.which("gcc" if language == "c11" else "g++")
    if not compiler:
        pytest.skip("there is no compiler")
    kind = "c" if language == "c11" else "c++"
    source = tmp_path / f"only.{kind}"
    source.write_text('#include "privmw.h"\nint main(void) { return privmw_abi() != 65536; }\n')
    strict = [
        "-Wall",
        "-Wextra",
        "-Wpedantic",
        "-Werror",
        "-fsyntax-only",
        f"-I{privmw.kernels.get_include()}",
    ]
    command = [compiler, f"-std={language}", *strict, str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@given(st.integers(0, 2**32), st.integers(1, 300), st.sampled_from([1, 2, 5]))
def test_sums_changes_and_potentials_are_those_of_numpy_and_the_kernels(seed, rows, threads):
    codes, sizes = draw_table(seed, rows)
    rng = np.random.default_rng(seed)
    masses = rng.integers(-(2**50), 2**50, rows)
    with Handles(codes, sizes) as made:
        sums = np.empty(made.cells, np.int64)
        assert (
            C["privmw_marginals_sum"](
                made.marginals, pointer(masses), rows, threads, pointer(sums), made.cells
            )
            == OK
        )
        np.testing.assert_array_equal(sums, numpy_sums(codes, sizes, masses))

        which = np.flatnonzero(rng.random(rows) < 0.3).astype(np.uint32)
        changes = rng.integers(-(2**40), 2**40, len(which))
        assert (
            C["privmw_marginals_add_changes"](
                made.marginals,
                pointer(which),
                pointer(changes),
                len(which),
                threads,
                pointer(sums),
                made.cells,
            )
            == OK
        )
        np.add.at(masses, which, changes)
        np.testing.assert_array_equal(sums, numpy_sums(codes, sizes, masses))

        values = rng.integers(-(2**40), 2**40, made.cells)
        potentials, slow = np.empty(rows), np.zeros(rows, np.int64)
        assert (
            C["privmw_marginals_potentials"](
                made.marginals, pointer(values), made.cells, -20, threads, pointer(potentials), rows
            )
            == OK
        )
        first = 0
        for begin, end in pairwise(STARTS):
            shape = [sizes[a] for a in ATTRIBUTES[begin:end]]
            cell = np.ravel_multi_index([codes[a] for a in ATTRIBUTES[begin:end]], shape)
            slow += values[first + cell]
            first += int(np.prod(shape))
        np.testing.assert_array_equal(potentials, slow * 2.0**-20)


def test_the_plan_counts_every_marginal(handles):
    ways = np.zeros(5, np.uint64)
    assert C["privmw_marginals_plan"](handles.marginals, pointer(ways)) == OK
    assert ways[:3].sum() == len(STARTS) - 1
    assert ways[4] > 0


def test_distinct_and_matching_rows_are_those_of_the_kernels(handles):
    codes, sizes, rows = handles.codes, handles.sizes, handles.rows
    expected, counts = kernels.distinct_rows(codes, sizes)
    first, numbers, found = np.empty(rows, np.uint32), np.empty(rows, np.int64), c.c_size_t()
    arguments = handles.given, len(codes), rows, 2
    outputs = pointer(first), pointer(numbers), c.addressof(found)
    assert C["privmw_distinct_rows"](*arguments, rows, *outputs) == OK
    assert found.value == len(expected) < rows
    np.testing.assert_array_equal(first[: found.value], expected)
    np.testing.assert_array_equal(numbers[: found.value], counts)
    first[:] = 77
    assert C["privmw_distinct_rows"](*arguments, len(expected) - 1, *outputs) == SIZE
    assert found.value == len(expected)
    assert (first == 77).all()

    attributes, values = np.array([0, 1], np.uint32), np.array([2, 1], np.uint32)
    query = handles.columns, pointer(attributes), pointer(values), 2
    assert C["privmw_matching_rows"](*query, rows, pointer(first), c.addressof(found)) == OK
    np.testing.assert_array_equal(first[: found.value], np.flatnonzero((codes[0] == 2) & (codes[1] == 1)))
    assert found.value > 0
    assert C["privmw_matching_rows"](*query, 0, pointer(first), c.addressof(found)) == SIZE


@given(st.integers(0, 2**32), st.integers(1, 200), st.floats(1e-300, 1e300), st.floats(2**-4, 8))
def test_weights_are_those_of_the_kernels(seed, rows, unit, factor):
    rng = np.random.default_rng(seed)
    ours = rng.random(rows) * unit
    theirs = ours.copy()
    total = written()
    assert C["privmw_rescale"](pointer(ours), rows, 2, c.addressof(total)) == OK
    assert total.value == kernels.rescale(theirs)
    np.testing.assert_array_equal(ours, theirs)

    masses = np.empty(rows, np.int64)
    assert C["privmw_to_masses"](pointer(ours), rows, 2, pointer(masses), c.addressof(total)) == OK
    expected, all_masses = kernels.to_masses(theirs)
    np.testing.assert_array_equal(masses, expected)
    assert total.value == all_masses

    which = np.flatnonzero(rng.random(rows) < 0.5).astype(np.uint32)
    changes = np.empty(len(which) + 1, np.int64)
    update = pointer(which), len(which), factor, 2, pointer(changes)
    status = C["privmw_multiply"](pointer(ours), rows, *update, c.addressof(total))
    gains = kernels.multiply(theirs, which, factor)
    after = kernels.total_after(all_masses, gains.before, len(which), factor, gains.gained)
    np.testing.assert_array_equal(ours, theirs)
    assert status == (RESCALE if after is None else OK)
    if after is not None:
        assert total.value == after
        np.testing.assert_array_equal(changes[:-1], gains.changes)


@given(st.integers(0, 2**32), st.integers(1, 300), st.floats(0.01, 900))
def test_tilted_weights_are_those_of_the_kernels(seed, rows, spread):
    rng = np.random.default_rng(seed)
    base, potentials = rng.random(rows), spread * rng.standard_normal(rows)
    base[rng.random(rows) < 0.1] = 0
    base[0] = 0.5
    weights, log_total = np.empty(rows), c.c_double()
    inputs = pointer(base), pointer(potentials), rows
    assert C["privmw_tilt"](*inputs, 2, pointer(weights), c.addressof(log_total)) == OK
    expected, expected_log = kernels.tilt(base, potentials)
    np.testing.assert_array_equal(weights, expected)
    assert log_total.value == expected_log


def seeded(key=bytes(32)):
    generator, words = c.c_void_p(), Words()
    assert C["privmw_chacha20_seeded"](key, c.addressof(generator)) == OK
    assert C["privmw_chacha20_words"](generator, c.addressof(words)) == OK
    return generator, words


def numpy_words(bit_generator):
    """numpy's BitGenerator capsule: a bitgen_t begins with its state and next_uint64."""
    get = c.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = c.c_void_p, [c.py_object, c.c_char_p]
    return Words.from_address(get(bit_generator.capsule, b"BitGenerator"))


@pytest.mark.parametrize("make", [lambda: privmw.ChaCha20(seed=3), lambda: np.random.PCG64(3)])
def test_draws_from_a_numpy_generator_are_those_of_the_kernels(make):
    scores = np.random.default_rng(4).integers(-50, 50, 400)
    ours, theirs = make(), make()
    words = numpy_words(ours)
    for name, law in (("gaussian", draws.discrete_gaussian), ("laplace", draws.discrete_laplace)):
        out = np.empty(200, np.int64)
        assert C[f"privmw_discrete_{name}"](words, 700, 3, pointer(out), len(out)) == OK
        np.testing.assert_array_equal(out, law(theirs, 700, 3, 200))
    for name in ("select_permute_and_flip", "select_exponential"):
        chosen = np.empty(5, np.int64)
        status = C[f"privmw_{name}"](words, pointer(scores), len(scores), 1, 20, 5, pointer(chosen))
        assert status == OK
        np.testing.assert_array_equal(chosen, getattr(draws, name)(theirs, scores, 1, 20, 5))


def test_a_seeded_generator_repeats_itself_and_one_of_the_operating_system_does_not():
    filled = []
    for _ in range(2):
        generator, _ = seeded()
        out = np.zeros(5000, np.uint8)
        assert C["privmw_chacha20_fill"](generator, pointer(out), len(out)) == OK
        C["privmw_chacha20_free"](generator)
        filled.append(out)
    np.testing.assert_array_equal(*filled)
    generator = c.c_void_p()
    assert C["privmw_chacha20_new"](c.addressof(generator)) == OK
    out = np.zeros(5000, np.uint8)
    assert C["privmw_chacha20_fill"](generator, pointer(out), len(out)) == OK
    C["privmw_chacha20_free"](generator)
    assert (out != filled[0]).any()


# ---- what is wrong ----


def calls(made):
    """Right arguments of every function that returns a status, by name; pointers to arrays as arrays."""
    rows, cells = made.rows, made.cells
    masses, sums = np.ones(rows, np.int64), np.zeros(cells, np.int64)
    which, changes = np.array([1, 4], np.uint32), np.array([5, 6], np.int64)
    weights = np.full(rows, 1 / rows)
    total, number, handle, words = c.c_int64(2**60), c.c_size_t(), c.c_void_p(), Words()
    generator, source = seeded()
    query, values = np.array([0], np.uint32), np.array([3], np.uint32)
    first, counts = np.empty(rows, np.uint32), np.empty(rows, np.int64)
    scores, chosen, key = np.arange(9), np.empty(2, np.int64), np.zeros(32, np.uint8)
    laws = source, 10, 1, chosen, 2
    choices = source, scores, 9, 1, 10, 2, chosen
    return {
        "columns_new": [made.given, len(made.codes), rows, 1, handle],
        "distinct_rows": [made.given, len(made.codes), rows, 1, rows, first, counts, number],
        "matching_rows": [made.columns, query, values, 1, rows, first, number],
        "marginals_new": [made.columns, ATTRIBUTES, STARTS, len(STARTS) - 1, 1, handle],
        "marginals_cells": [made.marginals, number],
        "marginals_plan": [made.marginals, np.zeros(5, np.uint64)],
        "marginals_sum": [made.marginals, masses, rows, 1, sums, cells],
        "marginals_add_changes": [made.marginals, which, changes, 2, 1, sums, cells],
        "marginals_potentials": [
            made.marginals,
            np.zeros(cells, np.int64),
            cells,
            0,
            1,
            np.empty(rows),
            rows,
        ],
        "rescale": [weights, rows, 1, total],
        "to_masses": [weights, rows, 1, masses, total],
        "multiply": [weights, rows, which, 2, 1.5, 1, changes, total],
        "tilt": [weights, np.zeros(rows), rows, 1, np.empty(rows), c.c_double()],
        "chacha20_new": [handle],
        "chacha20_seeded": [key, handle],
        "chacha20_words": [generator, words],
        "chacha20_fill": [generator, key, 32],
        "discrete_gaussian": list(laws),
        "discrete_laplace": list(laws),
        "select_permute_and_flip": list(choices),
        "select_exponential": list(choices),
    }


def run(name, arguments):
    def passed(value):
        if isinstance(value, np.ndarray):
            return pointer(value)
        return c.addressof(value) if isinstance(value, c._SimpleCData | Words) else value

    # A handle is passed as it is where a function takes it, and by its address where one is made.
    takes = {"matching_rows", "marginals_new", "chacha20_words", "chacha20_fill"} | {
        f"marginals_{verb}" for verb in ("cells", "plan", "sum", "add_changes", "potentials")
    }
    by_value = {"discrete_gaussian", "discrete_laplace", "select_permute_and_flip", "select_exponential"}
    ready = [passed(value) for value in arguments]
    if (name in takes or name in by_value) and arguments[0] is not None:
        ready[0] = arguments[0]
    return C[f"privmw_{name}"](*ready)


def is_pointer(value):
    return isinstance(value, np.ndarray | c.Array | c._SimpleCData | Words)


def test_every_function_that_can_fail_is_tried(handles):
    statuses = {name for name, of in C.items() if of.restype is c.c_int32}
    right = calls(handles)
    assert {f"privmw_{name}" for name in right} == statuses
    for name, arguments in right.items():
        assert run(name, arguments) == OK, name


def test_a_null_pointer_is_a_status(handles):
    tried = 0
    for name, right in calls(handles).items():
        for at, value in enumerate(right):
            if is_pointer(value):
                nothing = Words() if isinstance(value, Words) and at == 0 else None
                assert run(name, [*right[:at], nothing, *right[at + 1 :]]) == NULL, (name, at)
                tried += 1
    assert tried == 59
    for name in ("columns", "marginals", "chacha20"):
        C[f"privmw_{name}_free"](None)


HUGE = 2**64 - 1


def test_a_size_that_does_not_fit_is_a_status(handles):
    for name, at, value, status in [
        ("columns_new", 1, 0, SIZE),
        ("columns_new", 2, 0, SIZE),
        ("columns_new", 2, 2**32, SIZE),
        *((name, 3, threads, SIZE) for name in ("columns_new", "distinct_rows") for threads in (0, -1, 1025)),
        ("distinct_rows", 1, HUGE, SIZE),
        ("distinct_rows", 2, HUGE, SIZE),
        ("marginals_new", 4, 0, SIZE),
        ("marginals_sum", 2, 499, SIZE),
        ("marginals_sum", 2, HUGE, SIZE),
        ("marginals_sum", 3, 1025, SIZE),
        ("marginals_sum", 5, 1, SIZE),
        ("marginals_add_changes", 3, HUGE, SIZE),
        ("marginals_add_changes", 6, 0, SIZE),
        ("marginals_add_changes", 4, 0, SIZE),
        ("marginals_potentials", 2, 0, SIZE),
        ("marginals_potentials", 6, HUGE, SIZE),
        ("marginals_potentials", 3, 2001, VALUE),
        ("marginals_potentials", 3, -(2**31), VALUE),
        ("marginals_potentials", 4, 0, SIZE),
        *((name, 1, rows, SIZE) for name in ("rescale", "to_masses", "multiply") for rows in (0, HUGE)),
        *((name, 2, 0, SIZE) for name in ("rescale", "to_masses", "tilt")),
        ("multiply", 3, 501, SIZE),
        ("multiply", 5, 0, SIZE),
        *(("multiply", 4, factor, VALUE) for factor in (0.0, -1.0, 2.0**33, np.inf, np.nan)),
        ("tilt", 2, 2**32, SIZE),
        ("chacha20_fill", 2, HUGE, SIZE),
        *((f"discrete_{law}", at, 0, VALUE) for law in ("gaussian", "laplace") for at in (1, 2)),
        ("discrete_laplace", 1, 2**41, VALUE),
        *((f"discrete_{law}", 4, HUGE, SIZE) for law in ("gaussian", "laplace")),
        *(
            (f"select_{by}", at, value, status)
            for by in ("permute_and_flip", "exponential")
            for at, value, status in (
                (2, 0, SIZE),
                (2, 2**31, SIZE),
                (3, 0, VALUE),
                (4, 0, VALUE),
                (5, 0, SIZE),
                (5, 10, SIZE),
            )
        ),
    ]:
        right = calls(handles)[name]
        assert run(name, [*right[:at], value, *right[at + 1 :]]) == status


def changed(array, at, value):
    other = array.copy()
    other[at] = value
    return other


def test_a_value_outside_its_domain_is_a_status(handles):
    for name, at, change in [
        ("matching_rows", 1, lambda a: changed(a, 0, 4)),
        ("matching_rows", 2, lambda a: changed(a, 0, 10)),
        ("marginals_new", 1, lambda a: changed(a, 0, -1)),
        ("marginals_new", 1, lambda a: changed(a, 0, 1)),
        ("marginals_new", 1, lambda a: changed(a, 7, 4)),
        ("marginals_new", 1, lambda a: changed(a, 7, -(2**31))),
        ("marginals_new", 2, lambda a: changed(a, 0, 1)),
        ("marginals_new", 2, lambda a: changed(a, 1, 0)),
        ("marginals_new", 2, lambda a: changed(a, 1, -1)),
        ("marginals_new", 2, lambda a: changed(a, 2, 2**63 - 1)),
        ("marginals_new", 2, lambda a: changed(a, 3, -(2**63))),
        ("marginals_sum", 1, lambda a: changed(a, 9, 2**62)),
        ("marginals_sum", 1, lambda a: changed(a, 9, -(2**63))),
        ("marginals_sum", 1, lambda a: np.full_like(a, 2**63 - 1)),
        ("marginals_add_changes", 1, lambda a: changed(a, 0, 500)),
        ("marginals_add_changes", 1, lambda a: changed(a, 1, 2**32 - 1)),
        ("marginals_add_changes", 2, lambda a: np.full_like(a, -(2**62))),
        ("marginals_add_changes", 5, lambda a: changed(a, 3, 2**62)),
        ("marginals_add_changes", 5, lambda a: changed(a, -1, -(2**63))),
        *(("rescale", 0, lambda a, v=v: changed(a, 5, v)) for v in (-1.0, np.nan, np.inf, -np.inf)),
        ("rescale", 0, np.zeros_like),
        ("multiply", 2, lambda a: changed(a, 1, 500)),
        ("multiply", 2, lambda a: a[::-1].copy()),
        ("multiply", 2, lambda a: changed(a, 0, 4)),
        ("multiply", 0, lambda a: a + 5),
        ("multiply", 0, lambda a: changed(a, 1, np.nan)),
        ("multiply", 0, lambda a: changed(a, 1, -1.0)),
        *(("tilt", at, lambda a, v=v: changed(a, 5, v)) for at in (0, 1) for v in (np.nan, np.inf)),
        ("tilt", 0, lambda a: changed(a, 5, -1e-300)),
        ("tilt", 0, np.zeros_like),
    ]:
        right = calls(handles)[name]
        wrong = change(right[at])
        assert run(name, [*right[:at], wrong, *right[at + 1 :]]) == VALUE


@pytest.mark.parametrize(
    ("total", "status"), [(0, VALUE), (2**58 - 1, VALUE), (2**62 + 1, VALUE), (-1, VALUE), (2**58, VALUE)]
)
def test_a_total_that_is_not_that_of_the_weights_is_a_status(handles, total, status):
    right = calls(handles)["multiply"]
    # Every row is updated, so that the masses before are known to be above the total.
    right[2], right[3] = np.arange(handles.rows, dtype=np.uint32), handles.rows
    right[6], right[7] = np.empty(handles.rows, np.int64), c.c_int64(total)
    assert run("multiply", right) == status


@pytest.mark.parametrize("weight", [5.0, -1.0, np.nan, 1e-30])
def test_weights_that_were_not_rescaled_have_no_masses(handles, weight):
    right = calls(handles)["to_masses"]
    assert run("to_masses", [np.full(handles.rows, weight), *right[1:]]) == RESCALE


@pytest.mark.parametrize("name", ["columns_new", "distinct_rows"])
@pytest.mark.parametrize(
    ("field", "value", "status"),
    [("codes", None, NULL), ("width", 0, SIZE), ("width", 3, SIZE), ("size", 0, VALUE), ("size", 2, VALUE)],
)
def test_a_column_that_is_not_sound_is_a_status(handles, name, field, value, status):
    right = calls(handles)[name]
    given = c_columns(handles.codes, handles.sizes)
    setattr(given[2], field, value)
    assert run(name, [given, *right[1:]]) == status


def test_codes_out_of_line_are_a_status(handles):
    memory = np.zeros(64, np.uint8)
    column = (Column * 1)(Column(memory.ctypes.data + 1, 2, 7))
    handle = c.c_void_p()
    assert C["privmw_columns_new"](column, 1, 8, 1, c.addressof(handle)) == VALUE
    assert not handle.value


def test_marginals_of_too_many_cells_are_a_status():
    codes = [np.zeros(3, np.uint32) for _ in range(4)]
    columns, marginals = c.c_void_p(), c.c_void_p()
    given = c_columns(codes, [2**32 - 1] * 4)
    assert C["privmw_columns_new"](given, 4, 3, 1, c.addressof(columns)) == OK
    attributes, starts = np.arange(4, dtype=np.int32), np.array([0, 4])
    arguments = columns, pointer(attributes), pointer(starts), 1, 1, c.addressof(marginals)
    assert C["privmw_marginals_new"](*arguments) == SIZE
    C["privmw_columns_free"](columns)


UNUSED = """
import ctypes as c, resource, sys
import numpy as np
from itertools import combinations
from capi.c_functions import OK, c_columns, c_functions, pointer
from privmw import kernels

C, rows, narrow = c_functions(kernels.__pyx_capi__), 2000, 30
rng = np.random.default_rng(0)
used = [(rng.random(rows) < 0.05).astype(np.uint8) for _ in range(narrow)]
unused = [(rng.random(rows) < 0.5).astype(np.uint8) for _ in range(50)]
wide = [np.zeros(rows, np.uint32)] * 2000
pairs = list(combinations(range(narrow), 2))
starts = np.arange(len(pairs) + 1) * 2


def allocated(before, after):
    # The columns that the marginals use stand between the others.
    given = c_columns(before + used + after, [2] * len(before + used) + [2**32 - 1] * len(after))
    attributes = (np.array(pairs, np.int32) + len(before)).ravel()
    columns, marginals, ways = c.c_void_p(), c.c_void_p(), np.zeros(5, np.uint64)
    assert C["privmw_columns_new"](given, len(given), rows, 1, c.addressof(columns)) == OK
    planned = columns, pointer(attributes), pointer(starts), len(pairs), 1, c.addressof(marginals)
    assert C["privmw_marginals_new"](*planned) == OK
    masses, sums, cells = np.arange(rows), np.empty(4 * len(pairs), np.int64), 4 * len(pairs)
    assert C["privmw_marginals_sum"](marginals, pointer(masses), rows, 1, pointer(sums), cells) == OK
    which, changes = np.arange(rows, dtype=np.uint32), np.ones(rows, np.int64)
    changed = pointer(which), pointer(changes), rows, 1, pointer(sums), cells
    assert C["privmw_marginals_add_changes"](marginals, *changed) == OK
    out = np.empty(rows)
    assert C["privmw_marginals_potentials"](marginals, pointer(sums), cells, -60, 1, pointer(out), rows) == OK
    assert C["privmw_marginals_plan"](marginals, pointer(ways)) == OK
    assert ways[2] > 0  # by lists, which stand on ids of uncommon values
    C["privmw_marginals_free"](marginals)
    C["privmw_columns_free"](columns)
    return ways[4], out.tobytes(), sums.tobytes()


alone = allocated([], [])
# One column of 2^32 - 1 values would take 32 GB.
now = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + 2**29,) * 2)
assert allocated([], wide) == alone
assert allocated(unused, wide) == alone
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits the memory of a process")
def test_columns_that_no_marginal_uses_cost_no_memory(tmp_path):
    paths = {"PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), str(Path(privmw.__file__).parents[1])])}
    done = subprocess.run(
        [sys.executable, "-c", UNUSED], capture_output=True, text=True, env=os.environ | paths, cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_no_marginals_have_no_cells(handles):
    marginals, cells = c.c_void_p(), c.c_size_t(7)
    arguments = handles.columns, pointer(ATTRIBUTES), pointer(STARTS), 0, 1, c.addressof(marginals)
    assert C["privmw_marginals_new"](*arguments) == OK
    assert C["privmw_marginals_cells"](marginals, c.addressof(cells)) == OK
    assert cells.value == 0
    C["privmw_marginals_free"](marginals)


ONES, HALF = 2**64 - 1, 2**63 + 2**40 + 1  # no bound refuses this half
LAWS = [
    (f"discrete_{law}", *scale) for law in ("gaussian", "laplace") for scale in ((1, 9), (1, 1), (10**6, 1))
]
CHOICES = [(f"select_{by}", 1, below) for by in ("permute_and_flip", "exponential") for below in (1, 10**6)]


def broken(cycle, name, numerator, denominator, size):
    """The status of a draw from words that come again and again."""
    words = itertools.cycle(cycle)
    source = c.CFUNCTYPE(c.c_uint64, c.c_void_p)(lambda _: next(words))
    given = Words(None, c.cast(source, c.c_void_p).value), numerator, denominator
    if name.startswith("discrete"):
        out = np.empty(size, np.int64)
        return C[f"privmw_{name}"](*given, pointer(out), size)
    scores, chosen = -np.arange(size), np.empty(size, np.int64)
    return C[f"privmw_{name}"](
        given[0], pointer(scores), size, *given[1:], min(size // 2, 9), pointer(chosen)
    )


@pytest.mark.parametrize("law", LAWS + CHOICES)
def test_a_source_of_one_word_is_a_status_and_no_noise(law):
    for word in [0, 1, HALF, ONES // 3, ONES - 1, ONES]:
        assert broken([word], *law, size=40) == STUCK


@pytest.mark.parametrize(
    ("law", "cycle", "size"),
    [
        (("discrete_laplace", 1000, 1), [HALF, ONES], 1),  # a place that the coin refuses
        (("discrete_laplace", 1, 1), [ONES, HALF], 1),  # the negative copy of zero
        (("discrete_gaussian", 10**6, 1), [HALF, HALF, ONES], 1),
        (("discrete_gaussian", 1, 9), [ONES, HALF], 1),
        (("select_exponential", 1, 10), [HALF, ONES], 10),
        (("select_permute_and_flip", 1, 10**9), [HALF, HALF, ONES], 140_000),
    ],
)
def test_words_that_refuse_every_proposal_are_a_status(law, cycle, size):
    assert broken(cycle, *law, size) == STUCK


@given(
    st.lists(st.sampled_from([0, 1, HALF, ONES // 3, ONES]) | st.integers(0, ONES), min_size=1, max_size=4),
    st.sampled_from(LAWS + CHOICES),
)
@settings(max_examples=30)
def test_no_words_keep_a_draw_from_its_end(cycle, law):
    assert broken(cycle, *law, size=9) in (OK, STUCK)


@given(st.data())
def test_arguments_at_random_give_a_status(data):
    with Handles(*draw_table(2, 40)) as made:
        right = calls(made)
        name = data.draw(st.sampled_from(sorted(right)))
        arguments = right[name]
        for at, value in enumerate(arguments):
            if isinstance(value, np.ndarray) and value.dtype != np.uint8 and data.draw(st.booleans()):
                kind = value.dtype
                if kind.kind == "f":
                    arguments[at] = (
                        data.draw(
                            st.lists(st.floats(width=64), min_size=len(value), max_size=len(value)).map(
                                np.array
                            )
                        )
                        if len(value) <= 40
                        else value
                    )
                else:
                    limits = np.iinfo(kind)
                    number = st.integers(int(limits.min), int(limits.max)) | st.integers(0, 50)
                    where = data.draw(st.integers(0, len(value) - 1))
                    arguments[at] = changed(value, where, data.draw(number))
            elif is_pointer(value) and not isinstance(value, c.Array) and data.draw(st.integers(0, 9)) == 0:
                arguments[at] = Words() if isinstance(value, Words) and at == 0 else None
        assert run(name, arguments) in range(RESOURCES + 1)
