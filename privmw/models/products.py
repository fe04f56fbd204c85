"""A mixture of products fitted to noisy marginals: it proposes rows where public rows are missing or poor.

Each of K products has one distribution for each attribute, independent of each other; the mixture's answer to
a cell is a sum over products of products of probabilities. The tables are softmaxes, fitted by Adam to the
squared misfit of all measured cells, each weighted by its precision (relaxed projection with softmax: Liu,
Vietri and Wu 2021, "Iterative methods for private synthetic data"), plus

    prior_weight * sum over products k and attributes a of weight_k KL(table of a in k || margin of a),

which is at least prior_weight times the divergence of the mixture from independent attributes: the objective
of privmw/models/projected.py with a start that knows the one-way margins only, worth so many records. Without
it small budgets fit the noise. Released values and public rows only.

Matrix products are stacks of small ones, which OpenBLAS computes on one thread each: results have the same
bits for any number of its threads, and it starts none. Between processors of different kinds they may differ
in their last digits, and so in rows drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from privmw.data.workload import Workload
from privmw.kernels.arrays import Float64s, Int64s, UInt32s, freeze
from privmw.kernels.checks import check_integer, check_number
from privmw.random import sampling_stream
from privmw.secrecy import shown

Floats: TypeAlias = npt.NDArray[np.floating[Any]]
Float32s: TypeAlias = npt.NDArray[np.float32]

BLOCK = 2**12  # rows or records at once: 1.6 MB in single precision with 100 products
CELLS = 2**21  # of a step, or all if they are fewer: 40 ms with 100 products
SMALL = 2**18  # multiplications of a matrix product that OpenBLAS still computes on one thread
MOST_VALUES = 64  # of an attribute in one matrix product
MOST_PRODUCTS = 2048  # so that a matrix product has two rows or more: OpenBLAS splits that of a vector sooner
BATCH = 2048  # public records of a step
RATE, MEAN_DECAY, SQUARE_DECAY, TINY = 0.3, 0.9, 0.99, 1e-12  # of Adam; the rate falls as half a cosine
SPREAD = 1.0  # logits start so far, at most, from those of the one-way margins
INDEPENDENCE = 220.0  # prior_weight = this / (attributes * sqrt(sigma)): see default_prior_weight
LEAST_SHARE = 1e-6  # of a value at the start: a softmax cannot leave zero


@dataclass(frozen=True, eq=False)
class Products:
    """A mixture of products: a weight for each product and, for each attribute, one distribution a product.

    >>> products = Products(np.array([0.5, 0.5]), (np.eye(2), np.eye(2)))
    >>> products.draw(3, sampling_stream(0)).tolist()
    [[0, 0], [1, 1], [1, 1]]
    >>> products.complete(np.array([[1, 0], [0, 0]]), [0], sampling_stream(0)).tolist()
    [[1, 1], [0, 0]]
    """

    weights: Float64s  # (K,), with sum 1
    tables: tuple[Float64s, ...]  # for each attribute (K, size), rows with sum 1

    def __post_init__(self) -> None:
        weights = np.array(self.weights, np.float64)
        tables = tuple(np.array(table, np.float64) for table in self.tables)
        if weights.ndim != 1 or not len(weights) or not tables:
            raise ValueError("weights must be one for each of at least one product, with a table or more")
        if any(table.ndim != 2 or len(table) != len(weights) or not table.shape[1] for table in tables):
            raise ValueError(f"tables must have a row for each of the {len(weights)} products")
        for shares in (weights[None], *tables):
            if not (shares >= 0).all() or not np.allclose(shares.sum(1), 1.0, rtol=0, atol=1e-9):
                raise ValueError("weights, and each row of a table, must be a distribution")
        object.__setattr__(self, "weights", freeze(weights))
        object.__setattr__(self, "tables", tuple(freeze(table) for table in tables))

    def draw(self, count: int, stream: np.random.Generator) -> UInt32s:
        """Draw records: an array of codes, count x attributes."""
        count = check_integer("count", count, 0)
        products = _invert(np.cumsum(self.weights)[None], np.zeros(count, np.int64), stream)
        codes = np.empty((count, len(self.tables)), np.uint32)
        for a, table in enumerate(self.tables):
            codes[:, a] = _invert(np.cumsum(table, axis=1), products, stream)
        return codes

    def draw_evenly(self, count: int, stream: np.random.Generator) -> UInt32s:
        """Draw records with little spread: each product, and each value of it, as often as it should be.

        A record has the mixture's distribution, but records are not independent: a product of weight w has
        count * w records, rounded up or down, and among these a value of share p has its p, rounded so too.

        >>> products = Products(np.array([0.5, 0.5]), (np.eye(2), np.full((2, 2), 0.5)))
        >>> sorted(products.draw_evenly(4, sampling_stream(0)).tolist())
        [[0, 0], [0, 1], [1, 0], [1, 1]]
        """
        count = check_integer("count", count, 0)
        ends = np.cumsum(self.weights)
        points = (np.arange(count) + stream.random()) * (ends[-1] / max(count, 1))
        products = np.searchsorted(ends[:-1], points, "right")
        of_each = np.bincount(products, minlength=len(ends))[products]
        first = np.searchsorted(products, products)
        codes = np.empty((count, len(self.tables)), np.uint32)
        for a, table in enumerate(self.tables):
            # The records of a product in a new order for each attribute: attributes stay independent.
            order = np.lexsort((stream.random(count), products))
            within = np.empty(count)
            within[order] = (np.arange(count) - first + stream.random(count)) / of_each
            codes[:, a] = _found(np.cumsum(table, axis=1), products, within)
        return codes

    def complete(self, codes: npt.NDArray[Any], known: Sequence[int], stream: np.random.Generator) -> UInt32s:
        """Draw the attributes that are not known, given those that are; returns the whole records.

        codes: records x attributes; what is in the columns not known is ignored. A record that no product can
        have is completed from the mixture's prior weights.
        """
        known = self._check_known(codes, known)
        completed = np.empty(codes.shape, np.uint32)
        completed[:, known] = codes[:, known]
        with np.errstate(divide="ignore"):
            prior = np.log(self.weights)
            logs = {a: np.log(self.tables[a]).T for a in known}
        missing = [a for a in range(len(self.tables)) if a not in logs]
        cumulated = {a: np.cumsum(self.tables[a], axis=1) for a in missing}
        for start in range(0, len(codes), BLOCK):
            block = completed[start : start + BLOCK]
            scores = np.broadcast_to(prior, (len(block), len(prior))).copy()
            for a, log in logs.items():
                scores += log[block[:, a]]
            largest = scores.max(1, keepdims=True)
            impossible = np.isneginf(largest[:, 0])
            scores[impossible], largest[impossible] = prior, prior.max()
            posterior = np.exp(scores - largest).cumsum(1)
            products = _invert(posterior, np.arange(len(block)), stream)
            for a in missing:
                block[:, a] = _invert(cumulated[a], products, stream)
        return completed

    def answers(self, workload: Workload) -> Float64s:
        """The mixture's answers to a workload's cells."""
        if workload.domain.sizes != tuple(table.shape[1] for table in self.tables):
            raise ValueError(f"workload ({shown(workload)}) must have the attributes of the tables")
        stacked = np.concatenate([table.T for table in self.tables])
        answers = np.empty(workload.cells)
        for block, cells in _blocks(workload, np.ones(workload.cells, bool), len(self.weights)):
            answers[cells] = block.factor(stacked) @ (stacked[block.hub] * self.weights).T
        return answers

    def _check_known(self, codes: npt.NDArray[Any], known: Sequence[int]) -> list[int]:
        attributes = len(self.tables)
        if codes.ndim != 2 or codes.shape[1] != attributes or codes.dtype.kind not in "ui":
            raise ValueError(f"codes must be an array of integers with {attributes} columns")
        known = [check_integer("known", a, 0, attributes - 1, quote=False) for a in known]
        if len(set(known)) < len(known):
            raise ValueError("known must not repeat an attribute")
        for a in known:
            if len(codes) and not 0 <= codes[:, a].min() <= codes[:, a].max() < self.tables[a].shape[1]:
                raise ValueError(f"codes of attribute {a} must be below its size, {self.tables[a].shape[1]}")
        return known


def fit_products(
    workload: Workload,
    cells_answers: Float64s,
    precision: Float64s,
    *,
    products: int = 100,
    steps: int = 300,
    seed: int = 0,
    rows: npt.NDArray[Any] | None = None,
    row_weights: Float64s | None = None,
    known: Sequence[int] | None = None,
    row_weight: float = 0.0,
    prior_weight: float | None = None,
) -> Products:
    """Fit a mixture of products to measured answers, all of them released.

    cells_answers, precision: fractions and their inverse variances, for every cell of the workload; a cell of
    precision 0 was not measured, and its answer is ignored.
    rows, row_weights, known, row_weight: public records (codes, records x attributes), their weights, the
    attributes on which they are known (all), and how many records they are worth together.
    prior_weight: how many records independent attributes are worth; None for `default_prior_weight`.
    """
    fit = ProductFit(workload, cells_answers, precision, products, steps, seed, prior_weight)
    if rows is not None:
        fit.add_rows(rows, row_weights, known, row_weight)
    while fit.step():
        pass
    return fit.products()


def default_prior_weight(workload: Workload, precision: Float64s) -> float:
    """How many records independent attributes are worth: 220 / (attributes * sqrt(noise of a cell)).

    The divergences of the attributes add up, so each has its part of a fixed sum. Found on ADULT, all
    three-way marginals measured once, where of 30, 100, 300 and 1,000 the best is 100 at sigma .03 and 300 at
    sigma .003 to .006, and on a survey of 67 attributes at sigma .018, where it is 30.
    """
    measured = precision[precision > 0]
    return INDEPENDENCE / len(workload.domain) * math.pow(float(measured.mean()), 0.25)


@dataclass(frozen=True)
class _Block:
    """A stack of matrix products: cells of marginals of one order that share an attribute, the hub.

    Stacked tables have a row for each value of each attribute. Cell (i, row, value) has the answer
    sum over products of weight * hub table[value] * the product of the row's other tables. The last rows may
    repeat one to fill the stack.
    """

    hub: slice  # of the stacked tables: all values of an attribute, or some
    others: Int64s  # (order - 1, all rows): which rows of the stacked tables a row multiplies
    shape: tuple[int, int, int]  # stack, rows, values of the hub
    rows: int  # that are not repeated
    orders: tuple[tuple[Int64s | None, Int64s, Int64s], ...]  # for each other: how to add up its gradient

    def factor(self, stacked: Floats) -> Floats:
        """The product of each row's other tables, (stack, rows, K)."""
        shape = (*self.shape[:2], stacked.shape[1])
        if not len(self.others):
            return np.ones(shape, stacked.dtype)
        factor: Floats = stacked[self.others[0]]
        for other in self.others[1:]:
            factor *= stacked[other]
        return factor.reshape(shape)

    def add_gradient(self, stacked: Floats, of_factor: Floats, gradient: Floats) -> None:
        """Add the gradient by the other tables, given that by their product."""
        flat = of_factor.reshape(-1, stacked.shape[1])
        for at, (order, values, starts) in enumerate(self.orders):
            terms = flat
            for other in range(len(self.others)):
                if other != at:
                    terms = terms * stacked[self.others[other]]
            if order is not None:
                terms = terms[order]
            gradient[values] += np.add.reduceat(terms, starts, axis=0)


def _blocks(
    workload: Workload, used: npt.NDArray[np.bool_], products: int
) -> Iterator[tuple[_Block, Int64s]]:
    """Blocks of the cells that are used, with unused ones of their rows; and the cells of each block."""
    sizes = np.array(workload.domain.sizes, np.int64)
    first = np.concatenate([[0], np.cumsum(sizes)])
    groups: dict[tuple[int, int], list[int]] = {}
    for j, (start, end) in enumerate(zip(workload.starts[:-1], workload.starts[1:], strict=True)):
        attributes = workload.attributes[start:end]
        # The largest attribute is the hub: fewest rows.
        groups.setdefault((int(attributes[sizes[attributes].argmax()]), int(end - start)), []).append(j)
    for (hub, order), marginals in sorted(groups.items()):
        others, cells = [], []
        for j in marginals:
            attributes = workload.attributes[workload.starts[j] : workload.starts[j + 1]]
            shape = sizes[attributes]
            numbers = np.arange(workload.offsets[j], workload.offsets[j + 1]).reshape(shape)
            at = int(np.flatnonzero(attributes == hub)[0])
            table = np.moveaxis(numbers, at, -1).reshape(-1, sizes[hub])
            kept = np.flatnonzero(used[table].any(1))
            rest = np.delete(np.arange(order), at)
            values = np.unravel_index(kept, shape[rest]) if len(rest) else ()
            others.append(
                np.array([first[attributes[r]] + v for r, v in zip(rest, values, strict=True)]).reshape(
                    order - 1, len(kept)
                )
            )
            cells.append(table[kept])
        all_others, all_cells = np.concatenate(others, axis=1).astype(np.int64), np.concatenate(cells)
        most = min(int(sizes[hub]), MOST_VALUES)
        rows = max(1, min(len(all_cells), SMALL // (products * most)))
        for start in range(0, len(all_cells), rows * (BLOCK // rows)):
            some = slice(start, start + rows * (BLOCK // rows))
            count = len(all_cells[some])
            repeated = np.minimum(np.arange(-(-count // rows) * rows), count - 1)
            of_rows = all_others[:, some][:, repeated]
            orders = tuple(_adding_order(other) for other in of_rows)
            for value in range(0, int(sizes[hub]), most):
                among = all_cells[some][repeated, value : value + most]
                of_hub = slice(int(first[hub]) + value, int(first[hub]) + value + among.shape[1])
                among = among.reshape(-1, rows, among.shape[1])
                yield _Block(of_hub, of_rows, among.shape, count, orders), among


def _adding_order(other: Int64s) -> tuple[Int64s | None, Int64s, Int64s]:
    """An order that brings equal numbers together (None: they are), these numbers, and where they start."""
    order = np.argsort(other, kind="stable")
    values, starts = np.unique(other[order], return_index=True)
    already = bool((order == np.arange(len(order))).all())
    return None if already else order, values, starts


class ProductFit:
    """Adam on the logits of a mixture's tables and weights, in single precision."""

    def __init__(
        self,
        workload: Workload,
        cells_answers: Float64s,
        precision: Float64s,
        products: int,
        steps: int,
        seed: int,
        prior_weight: float | None,
    ) -> None:
        products = check_integer("products", products, 1, MOST_PRODUCTS)
        steps = check_integer("steps", steps, 1)
        for name, values in (("cells_answers", cells_answers), ("precision", precision)):
            if values.shape != (workload.cells,):
                raise ValueError(f"{name} ({values.shape}) must be one for each of {workload.cells} cells")
        used = precision > 0
        if not np.isfinite(precision).all() or (precision < 0).any() or not used.any():
            raise ValueError("precision must be finite and not negative, and positive for a cell or more")
        if not np.isfinite(cells_answers[used]).all():
            raise ValueError("cells_answers must be finite where precision is positive")
        if prior_weight is None:
            prior_weight = default_prior_weight(workload, precision)
        if not 0 <= check_number("prior_weight", prior_weight) < math.inf:
            raise ValueError(f"prior_weight ({prior_weight}) must be finite and not negative")
        self._sizes = workload.domain.sizes
        self._starts = np.concatenate([[0], np.cumsum(self._sizes)])
        self._attribute = np.repeat(np.arange(len(self._sizes)), self._sizes)
        # Of the loss: gradients are near 1, and those of what records are worth are no more than they.
        self._scale = 1 / max(float(precision.max()), 1.0)
        self._blocks: list[tuple[_Block, Floats, Floats]] = []  # with answers and scaled precisions
        for block, cells in _blocks(workload, used, products):
            answers = np.where(used[cells], cells_answers[cells], 0.0).astype(np.float32)
            scaled = (precision[cells] * self._scale).astype(np.float32)
            scaled.reshape(-1, scaled.shape[2])[block.rows :] = 0.0  # repeated
            self._blocks.append((block, answers, scaled))
        self._batches: Iterator[list[int]] = iter(())
        self._rng = sampling_stream(seed)
        margins = one_way_margins(workload, cells_answers, precision)
        logits = np.log(np.concatenate(margins)).astype(np.float32)[:, None]
        noise = self._rng.uniform(-SPREAD, SPREAD, (len(logits), products)).astype(np.float32)
        self._margin_logs, self._worth = logits, prior_weight * self._scale
        self._parameters = np.concatenate([logits + noise, np.zeros((1, products), np.float32)])
        self._mean, self._square = np.zeros_like(self._parameters), np.zeros_like(self._parameters)
        self._steps, self._done = steps, 0
        self._rows: tuple[Int64s, Float64s, float] | None = None

    def add_rows(
        self,
        rows: npt.NDArray[Any],
        row_weights: Float64s | None,
        known: Sequence[int] | None,
        row_weight: float,
    ) -> None:
        """Add row_weight times the mean log density of public records to what is maximised."""
        if rows.ndim != 2 or rows.shape[1] != len(self._sizes) or not len(rows):
            raise ValueError(f"rows must be records with {len(self._sizes)} codes each")
        known = range(len(self._sizes)) if known is None else known
        attributes = sorted({check_integer("known", a, 0, len(self._sizes) - 1, quote=False) for a in known})
        for a in attributes:
            if not 0 <= rows[:, a].min() <= rows[:, a].max() < self._sizes[a]:
                raise ValueError(f"rows of attribute {a} must be codes below its size, {self._sizes[a]}")
        weights = np.ones(len(rows)) if row_weights is None else np.array(row_weights, np.float64)
        if weights.shape != (len(rows),) or not (weights >= 0).all() or not 0 < weights.sum() < math.inf:
            raise ValueError(f"row_weights must be finite and not negative, one for each of {len(rows)} rows")
        if not 0 <= check_number("row_weight", row_weight) < math.inf:
            raise ValueError(f"row_weight ({row_weight}) must be finite and not negative")
        stacked = rows[:, attributes].astype(np.int64) + self._starts[attributes]
        self._rows = stacked, np.cumsum(weights / weights.sum()), row_weight * self._scale

    def step(self) -> bool:
        """Take a step; False if there are no more to take."""
        if self._done == self._steps:
            return False
        _, gradient = self.gradient()
        rate = RATE * (1 + math.cos(math.pi * self._done / self._steps)) / 2
        self._done += 1
        self._mean += (1 - MEAN_DECAY) * (gradient - self._mean)
        self._square += (1 - SQUARE_DECAY) * (gradient * gradient - self._square)
        mean_bias, square_bias = 1 - MEAN_DECAY**self._done, 1 - SQUARE_DECAY**self._done
        size = np.sqrt(self._square / square_bias) + TINY
        self._parameters -= (rate / mean_bias) * self._mean / size
        return True

    def gradient(self) -> tuple[float, Floats]:
        """The loss, half the squared misfit in units of the best measured cell, and its gradient."""
        stacked, weights = self._tables()
        by_table, by_weight = np.zeros_like(stacked), np.zeros_like(weights)
        loss, batch, share = 0.0, *self._batch()
        for block, answers, precision in batch:
            factor, table = block.factor(stacked), stacked[block.hub]
            weighted = table * weights
            missed = factor @ weighted.T
            missed -= answers
            pull = missed * precision
            loss += float(np.einsum("ijk,ijk->", missed, pull)) / 2
            by_weighted = (pull.transpose(0, 2, 1) @ factor).sum(0)
            by_weight += np.einsum("ij,ij->j", by_weighted, table)
            by_table[block.hub] += by_weighted * weights
            block.add_gradient(stacked, pull @ weighted, by_table)
        if self._worth:
            worth = self._worth * share
            information = np.log(stacked + TINY) - self._margin_logs
            of_products = np.einsum("ij,ij->j", stacked, information)
            loss += worth * float(np.einsum("j,j->", weights, of_products))
            by_weight += worth * of_products
            by_table += worth * weights * information
        gradient = np.empty_like(self._parameters)
        along = stacked * by_table
        gradient[:-1] = along - stacked * np.add.reduceat(along, self._starts[:-1], axis=0)[self._attribute]
        gradient[-1] = weights * (by_weight - np.einsum("j,j->", weights, by_weight))
        if self._rows is not None:
            loss += self._add_rows_gradient(stacked, weights, gradient, share)
        return loss, gradient

    def _batch(self) -> tuple[list[tuple[_Block, Floats, Floats]], float]:
        """The blocks of a step, all or a random part, and their share of all cells."""
        sizes = np.array([answers.size for _, answers, _ in self._blocks])
        if sizes.sum() <= CELLS:
            return self._blocks, 1.0
        numbers = next(self._batches, None)
        if numbers is None:  # each block comes once before one comes again
            order = self._rng.permutation(len(sizes))
            parts = np.cumsum(sizes[order]) // CELLS
            self._batches = iter([order[parts == part].tolist() for part in np.unique(parts)])
            numbers = next(self._batches)
        return [self._blocks[number] for number in numbers], float(sizes[numbers].sum() / sizes.sum())

    def _add_rows_gradient(self, stacked: Floats, weights: Floats, gradient: Floats, share: float) -> float:
        assert self._rows is not None
        rows, cumulated, worth = self._rows
        worth *= share
        if len(rows) > BATCH:
            rows = rows[np.searchsorted(cumulated[:-1], self._rng.random(BATCH), "right")]
            shares = np.full((BATCH, 1), 1 / BATCH, stacked.dtype)
        else:
            shares = np.diff(cumulated, prepend=0.0)[:, None].astype(stacked.dtype)
        scores = np.log(weights + TINY) + np.zeros((len(rows), 1), stacked.dtype)
        logs = np.log(stacked + TINY)
        for column in rows.T:
            scores += logs[column]
        largest = scores.max(1, keepdims=True)
        posterior = np.exp(scores - largest)
        total = posterior.sum(1, keepdims=True)
        loss = -worth * float((shares * (np.log(total) + largest)).sum())
        posterior *= shares / total
        of_products = posterior.sum(0)
        for column in rows.T:
            order, values, starts = _adding_order(column)
            terms = posterior if order is None else posterior[order]
            gradient[values] -= worth * np.add.reduceat(terms, starts, axis=0)
            attribute = self._attribute[column[0]]
            all_values = slice(self._starts[attribute], self._starts[attribute + 1])
            gradient[all_values] += worth * stacked[all_values] * of_products
        gradient[-1] -= worth * (of_products - weights)
        return loss

    def products(self) -> Products:
        """The mixture reached so far."""
        parameters = self._parameters.astype(np.float64)
        stacked, weights = _softmax(parameters[:-1], self._starts), _softmax(parameters[-1:].T, [0])
        tables = np.split(stacked, self._starts[1:-1])
        return Products(
            weights[:, 0].astype(np.float64), tuple(np.array(table.T, np.float64) for table in tables)
        )

    def _tables(self) -> tuple[Floats, Floats]:
        weights = _softmax(self._parameters[-1:].T, [0])[:, 0]
        return _softmax(self._parameters[:-1], self._starts), weights


def _softmax(logits: Floats, starts: Sequence[int] | Int64s) -> Floats:
    """The distributions of segments of rows, column by column; a last start at the end is ignored."""
    begins = np.array([start for start in starts if start < len(logits)])
    segment = np.repeat(np.arange(len(begins)), np.diff(begins, append=len(logits)))
    shares = np.exp(logits - np.maximum.reduceat(logits, begins, axis=0)[segment])
    shares /= np.add.reduceat(shares, begins, axis=0)[segment]
    return shares


def one_way_margins(workload: Workload, cells_answers: Float64s, precision: Float64s) -> list[Float64s]:
    """For each attribute its distribution by all marginals that have it and were measured whole.

    Each gives a value's share with the variance of a sum over its cells; the mean has weights inverse to it.
    Shares far below their noise are raised to a quarter of it, so that every value can be found.
    """
    sizes = workload.domain.sizes
    total = [np.zeros(size) for size in sizes]
    weight = [np.zeros(size) for size in sizes]
    for j in range(len(workload)):
        cells = slice(int(workload.offsets[j]), int(workload.offsets[j + 1]))
        if not (precision[cells] > 0).all():
            continue
        attributes = workload.attributes[workload.starts[j] : workload.starts[j + 1]].tolist()
        shape = [sizes[a] for a in attributes]
        answers, variances = cells_answers[cells].reshape(shape), (1 / precision[cells]).reshape(shape)
        for at, a in enumerate(attributes):
            summed = tuple(other for other in range(len(shape)) if other != at)
            of_values = 1 / variances.sum(summed)
            total[a] += answers.sum(summed) * of_values
            weight[a] += of_values
    margins = []
    for size, values, weights in zip(sizes, total, weight, strict=True):
        if not weights.all():
            margins.append(np.full(size, 1 / size))
            continue
        shares = np.maximum(values / weights, np.maximum(0.25 / np.sqrt(weights), LEAST_SHARE))
        margins.append(shares / shares.sum())
    return margins


def _invert(cumulated: Float64s, rows: Int64s, stream: np.random.Generator) -> Int64s:
    """Draw from some of the distributions whose cumulated weights, not normalised, are rows of a table."""
    return _found(cumulated, rows, stream.random(len(rows)))


def _found(cumulated: Float64s, rows: Int64s, points: Float64s) -> Int64s:
    """The values where these rows of cumulated weights, not normalised, pass points between 0 and 1."""
    size = cumulated.shape[1]
    last = cumulated[:, -1:]
    flat = (cumulated / last + np.arange(len(cumulated))[:, None]).ravel()
    found = np.searchsorted(flat, rows + points, "right") - rows * size
    drawn: Int64s = np.clip(found, 0, size - 1).astype(np.int64, copy=False)
    return drawn
