"""Noisy counts from a file, one row a cell, and fitted ones to a file: all released.

There are two columns for each attribute of a cell, attribute_1 and value_1, attribute_2 and value_2 and so
on, in any order and empty beyond the cell's own; a row without attributes is the total. Every distinct word
is parsed once, so that millions of rows take seconds. pyarrow is needed (extra `io`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from privmw.accounting.noise import NoiseDistribution, make_noise
from privmw.data.attribute import unguarded
from privmw.data.domain import Domain
from privmw.data.syntax import Syntax
from privmw.data.workload import Queries, find_queries
from privmw.extensions.postprocess.fit import Fit
from privmw.io.extras import need
from privmw.io.files import (
    SEEDED,
    about,
    batches,
    check_names,
    checked_path,
    columns_of,
    files_of,
    public_layout,
)
from privmw.kernels.arrays import Bools, Float64s, Int64s
from privmw.release.cells import table_maker, write_cells
from privmw.release.noisy_marginals import LARGEST_NOISY_COUNT, NoisyMarginals
from privmw.secrecy import expect, shown

COUNT, NOISE, SCALE = "noisy_count", "noise", "scale"
ABSENT = -1


def read_noisy_marginals(path: str | os.PathLike[str], domain: Domain) -> NoisyMarginals:
    """The noisy counts of a .parquet or .csv file; a cell that occurs twice is combined by inverse variances.

    Columns: attribute_1, value_1, ... as texts that `Attribute.parse` reads, noisy_count, noise ("laplace",
    "gaussian", "discrete-laplace" or "discrete-gaussian") and scale, in counts; others are ignored. What
    `privmw release` wrote on another domain is refused.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
    ...     print("attribute_1,value_1,noisy_count,noise,scale", file=file)
    ...     print("sex,F,41.5,laplace,2", file=file)
    ...     print(",,93,gaussian,4", file=file, flush=True)
    ...     read_noisy_marginals(file.name, Domain({"sex": ["F", "M"]}))
    NoisyMarginals(2 marginals, 2 of 3 cells measured)
    """
    expect("domain", domain, Domain, "a Domain")
    named = checked_path(path)
    reader = _Reader(domain)
    for file in files_of(named):
        measured_on = about(file).get("domain", domain.fingerprint())
        if measured_on != domain.fingerprint():
            raise ValueError(
                f"{file} must be read with the domain that it was measured on, which is another one"
            )
        reader.read(file)
    try:
        return reader.marginals()
    except ValueError as error:
        raise ValueError(f"{named}: {error}") from None


class _Reader:
    """The rows read so far, with the numbers of their marginal, cell and noise."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self.pa = need("pyarrow", "read files", "io")
        self.numbers: dict[tuple[int, ...], int] = {}  # of marginals, by the positions of their attributes
        self.noises: dict[NoiseDistribution, int] = {}
        self.codes: dict[tuple[int, str], int] = {}  # of an attribute's position and a word
        self.rows: list[tuple[Int64s, Int64s, Float64s, Int64s]] = []
        self.file = ""

    def read(self, file: str) -> None:
        self.file = file
        syntax = public_layout(file, Syntax())
        names = columns_of(file, private=False, syntax=syntax)[0]
        order = max((int(number) for number in _numbered(names)), default=1)
        pairs = (f"{kind}_{place}" for place in range(1, order + 1) for kind in ("attribute", "value"))
        wanted = []
        for name in pairs:  # ends at the first that is missing, however large the largest number is
            check_names(file, names, [name], private=False)
            wanted.append(name)
        before = 0
        for batch in batches(file, [*wanted, COUNT, NOISE, SCALE], private=False, syntax=syntax):
            columns = dict(zip(batch.schema.names, batch.columns, strict=True))
            cells = [self._pair(columns, place, before) for place in range(1, order + 1)]
            marginal_of, cell = self._locate(cells, before)
            counts = self._numbers(columns, COUNT)
            self._refuse_if(
                ~(np.abs(counts) <= LARGEST_NOISY_COUNT), before, COUNT, counts, "be finite, and at most 2^62"
            )
            self.rows.append((marginal_of, cell, counts, self._noises(columns, before)))
            before += batch.num_rows

    def marginals(self) -> NoisyMarginals:
        if not self.numbers:
            raise ValueError("a file of noisy counts must not be empty")
        marginal_of, cells, counts, noise_of = map(np.concatenate, zip(*self.rows, strict=True))
        return NoisyMarginals.of_cells(
            self.domain,
            [tuple(self.domain.names[place] for place in places) for places in self.numbers],
            [(noise.name, noise.scale) for noise in self.noises],
            marginal_of=marginal_of,
            cells=cells,
            noisy_counts=counts,
            noise_of=noise_of,
        )

    def _pair(self, columns: dict[str, Any], place: int, before: int) -> tuple[Int64s, Int64s]:
        """The positions of one column of attributes, and the codes of the values beside it."""
        name, value = f"attribute_{place}", f"value_{place}"
        indices, words = self._texts(columns, name)
        places = self._each(indices, lambda key: ABSENT if key == ABSENT else self._place(name, words[key]))
        indices, words = self._texts(columns, value)
        empty = np.array([word == "" for word in words] + [True])[indices]
        absent = places == ABSENT
        self._refuse_if(absent & ~empty, before, value, None, f"be empty where {name} is")
        self._refuse_if(
            ~absent & (indices == ABSENT), before, value, None, f"not be empty where {name} is not"
        )

        def code(key: int) -> int:
            return self._code(value, key // len(words), words[key % len(words)])

        keys = np.where(absent, ABSENT, places * len(words) + indices)
        return places, self._each(keys, lambda key: 0 if key == ABSENT else code(key))

    def _locate(self, cells: list[tuple[Int64s, Int64s]], before: int) -> tuple[Int64s, Int64s]:
        """Each row's marginal, and the cell of it; attributes are put into the domain's order first."""
        beyond = len(self.domain)  # absent ones come last
        places = np.stack([np.where(given == ABSENT, beyond, given) for given, _ in cells])
        codes = np.stack([code for _, code in cells])
        if (places[1:] < places[:-1]).any():
            order = np.argsort(places, axis=0, kind="stable")
            places, codes = (np.take_along_axis(given, order, axis=0) for given in (places, codes))
        twice = ((places[1:] == places[:-1]) & (places[1:] < beyond)).any(axis=0)
        self._refuse_if(twice, before, "attribute_1", None, "differ from the others of its row")
        sizes = np.array([*self.domain.sizes, 1], np.int64)
        rows, cell = np.arange(places.shape[1]), np.zeros(places.shape[1], np.int64)
        alike = np.zeros(places.shape[1], np.int64)
        for place, code in zip(places, codes, strict=True):
            cell = cell * sizes[place] + code  # overflows for marginals that are refused as too large
            alike = _numbered_anew(self.pa, alike * (beyond + 1) + place)
        one = np.empty(int(alike.max(initial=-1)) + 1, np.int64)
        one[alike] = rows
        known = (tuple(each[each < beyond].tolist()) for each in places[:, one].T)
        numbers = [self.numbers.setdefault(places, len(self.numbers)) for places in known]
        return np.array(numbers, np.int64)[alike], cell

    def _noises(self, columns: dict[str, Any], before: int) -> Int64s:
        indices, words = self._texts(columns, NOISE)
        self._refuse_if(indices == ABSENT, before, NOISE, None, "not be empty")
        scales = self._numbers(columns, SCALE)
        kinds = _numbered_anew(self.pa, scales)
        values = np.empty(int(kinds.max(initial=-1)) + 1)
        values[kinds] = scales

        def number(key: int) -> int:
            try:
                noise = make_noise(words[key % len(words)], float(values[key // len(words)]))
            except ValueError as error:
                raise ValueError(f"{self.file}: {error}") from None
            return self.noises.setdefault(noise, len(self.noises))

        return self._each(kinds * len(words) + indices, number)

    def _each(self, keys: Int64s, number: Callable[[int], int]) -> Int64s:
        """The number of each key; `number` is called once for equal keys."""
        entries = self.pa.array(keys).dictionary_encode()
        numbers = np.array([number(key) for key in entries.dictionary.to_pylist()], np.int64)
        found: Int64s = numbers[entries.indices.to_numpy()]
        return found

    def _texts(self, columns: dict[str, Any], name: str) -> tuple[Int64s, list[str]]:
        """A column's distinct words, and which each row has: ABSENT where it is null."""
        column, pa = columns[name], self.pa
        try:
            if not pa.types.is_dictionary(column.type):
                column = column.cast(pa.string()).dictionary_encode()
            words = column.dictionary.cast(pa.string()).to_pylist()
            indices = column.indices.cast(pa.int64()).fill_null(ABSENT).to_numpy()
        except (pa.ArrowException, UnicodeDecodeError):
            raise ValueError(f"{self.file}: column {shown(name)} ({column.type}) must hold texts") from None
        if None in words:
            indices = np.where(indices == words.index(None), ABSENT, indices)
        return indices, words

    def _numbers(self, columns: dict[str, Any], name: str) -> Float64s:
        """A column of numbers, or of their texts; NaN where it is null."""
        column, pa = columns[name], self.pa
        try:
            if pa.types.is_dictionary(column.type):
                column = column.dictionary_decode()
            if pa.types.is_boolean(column.type):
                raise pa.ArrowInvalid("booleans")
            numbers: Float64s = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        except pa.ArrowException as error:
            reason = " ".join(str(error).split())[:100]
            raise ValueError(f"{self.file}: column {shown(name)} ({reason}) must hold numbers") from None
        return numbers

    def _place(self, column: str, word: str) -> int:
        if word == "" and word not in self.domain:
            return ABSENT
        try:
            return self.domain.index(word if word in self.domain else unguarded(word))
        except ValueError as error:
            raise ValueError(f"{self.file}: column {shown(column)}: {error}") from None

    def _code(self, column: str, place: int, word: str) -> int:
        if (place, word) not in self.codes:
            try:
                self.codes[place, word] = self.domain.attributes[place].parse(word)
            except ValueError as error:
                raise ValueError(f"{self.file}: column {shown(column)}: {error}") from None
        return self.codes[place, word]

    def _refuse_if(self, bad: Bools, before: int, column: str, values: Float64s | None, must: str) -> None:
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            value = "" if values is None else f"{values[row]}, "
            raise ValueError(f"{self.file}: column {shown(column)} ({value}row {before + row}) must {must}")


def _numbered(names: Iterable[str]) -> list[str]:
    """The numbers of columns such as attribute_3 and value_3."""
    found = (re.fullmatch(r"(?:attribute|value)_([1-9][0-9]{0,8})", name) for name in names)
    return [match[1] for match in found if match]


def _numbered_anew(pa: Any, values: npt.NDArray[Any]) -> Int64s:
    """Numbers from 0 on, the same for equal values."""
    numbers: Int64s = pa.array(values).dictionary_encode().indices.to_numpy().astype(np.int64)
    return numbers


def write_fitted(
    fit: Fit, path: str | os.PathLike[str], *, for_release: bool = True, raw: bool = False
) -> None:
    """Write the fitted and the noisy count of every cell of the marginals measured.

    Columns as above, and noisy_count and standard_deviation, empty for a cell that was not measured, and
    fitted, all in counts. The file is .parquet, .csv or .feather; for_release=False marks it as made from
    seeded noise; raw: see `Table.write`.

    >>> write_fitted(fit, "fitted.parquet")  # doctest: +SKIP
    """
    import pyarrow as pa

    measured, fitted = fit.measured, fit.fitted_counts()
    absent, deviations = np.isinf(measured.variances), np.sqrt(measured.variances)
    attributes = np.array([place for places in measured.places for place in places], np.int32)
    starts = np.cumsum([0, *map(len, measured.places)], dtype=np.int64)
    offsets = np.array(measured.offsets, np.int64)

    def queries(part: slice) -> Queries:
        cells = np.arange(len(fitted))[part]
        return find_queries(fit.domain, attributes, starts, offsets, cells)

    def columns(part: slice) -> dict[str, Any]:
        return {
            "noisy_count": pa.array(measured.noisy_counts[part], mask=absent[part]),
            "fitted": fitted[part],
            "standard_deviation": pa.array(deviations[part], mask=absent[part]),
        }

    about: dict[str, Any] = {"method": fit.certificate.method, "domain": fit.domain.fingerprint()}
    about |= {} if for_release else SEEDED
    orders = np.diff(starts)
    table = table_maker(fit.domain, attributes, int(orders.max()), queries, columns, about)
    write_cells(path, table, len(fitted), for_release=for_release, raw=raw)
