"""A mixture of product distributions fitted to noisy marginals, which proposes rows.

Each of K products has an independent distribution for each attribute; the mixture's answer to a cell is the
weighted mean over products of the product of probabilities. The tables are softmaxes, fitted by Adam to the
squared misfit of all measured cells, each weighted by its precision (relaxed projection with softmax: Liu,
Vietri and Wu 2021, "Iterative methods for private synthetic data"), plus

    prior_weight * sum over products k and attributes a of weight_k KL(table of a in k || margin of a),

which is at least prior_weight times the divergence of the mixture from independent attributes: the objective
of privmw/models/projected.py with the product of the one-way margins as the start. Without it small budgets
fit the noise. Released values and public rows only.

Matrix products are stacks of small ones, which OpenBLAS computes on one thread each: results have the same
bits for any number of its threads, and it starts none. On other processors the last digits may differ, and so
may rows drawn.
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
from privmw.models.training import TINY, Adam, Floats, Training
from privmw.random import sampling_stream
from privmw.secrecy import shown

Float32s: TypeAlias = npt.NDArray[np.float32]

ROWS_PER_BLOCK = 2**12  # 1.6 MB in single precision with 100 products
CELLS_PER_STEP = 2**21  # 40 ms with 100 products
SINGLE_THREAD_PRODUCT = 2**18  # multiplications of a matrix product that OpenBLAS computes on one thread
VALUES_PER_BLOCK = 64  # of the hub
MOST_PRODUCTS = 2048  # so that matrix products have two rows or more: OpenBLAS splits vectors sooner
DRAW_ATTEMPTS = 20  # until enough rows keep the constraints


@dataclass(frozen=True, slots=True)
class FitSettings:
    """Constants of a fit, chosen by benches/bench_products.py and benches/studies/growth.py."""

    rate: float = 0.3  # of Adam, at first; falls as half a cosine
    public_records: int = 2048  # in a step
    spread: float = 1.0  # the largest distance of initial logits from those of the one-way margins
    independence: float = 220.0  # of default_prior_weight
    least_share: float = 1e-6  # of a value at the start: a softmax cannot leave zero


FIT = FitSettings()


@dataclass(frozen=True, eq=False)
class Products:
    """A mixture of products: one weight per product, and one distribution per attribute and product.

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
            raise ValueError("weights must be one-dimensional and not empty, with one table or more")
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
        """Draw records by systematic sampling.

        Each record has the mixture's distribution, but records are not independent: a product of weight w has
        count * w records, rounded up or down, and a value of share p the share p of these, also rounded.

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
            # A new order of each product's records for each attribute keeps attributes independent.
            order = np.lexsort((stream.random(count), products))
            within = np.empty(count)
            within[order] = (np.arange(count) - first + stream.random(count)) / of_each
            codes[:, a] = _quantiles(np.cumsum(table, axis=1), products, within)
        return codes

    def complete(self, codes: npt.NDArray[Any], known: Sequence[int], stream: np.random.Generator) -> UInt32s:
        """Draw the attributes that are not in `known`, given those that are; returns the completed records.

        codes: records x attributes; columns not in `known` are ignored. A record of probability 0 is
        completed from the mixture's weights.
        """
        known = self._check_known(codes, known)
        completed = np.empty(codes.shape, np.uint32)
        completed[:, known] = codes[:, known]
        with np.errstate(divide="ignore"):
            prior = np.log(self.weights)
            logs = {a: np.log(self.tables[a]).T for a in known}
        missing = [a for a in range(len(self.tables)) if a not in logs]
        cumulated = {a: np.cumsum(self.tables[a], axis=1) for a in missing}
        for start in range(0, len(codes), ROWS_PER_BLOCK):
            block = completed[start : start + ROWS_PER_BLOCK]
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


def default_prior_weight(workload: Workload, precision: Float64s) -> float:
    """The default prior weight, in records: 220 / (attributes * sqrt(noise of a cell)).

    The divergences of attributes add up, hence the division. Chosen on ADULT, all three-way marginals
    measured once, where of 30, 100, 300 and 1,000 the best is 100 at sigma .03 and 300 at sigma .003 to .006,
    and on a survey of 67 attributes at sigma .018, where it is 30.
    """
    measured = precision[precision > 0]
    return FIT.independence / len(workload.domain) * math.pow(float(measured.mean()), 0.25)


@dataclass(frozen=True)
class _Block:
    """A stack of matrix products: cells of marginals of one order that share an attribute, the hub.

    Stacked tables have a row for each value of each attribute. Cell (i, row, value) has the answer
    sum over products of weight * hub table[value] * the product of the row's other tables. The last rows may
    repeat one to fill the stack.
    """

    hub: slice  # of the stacked tables: some or all values of an attribute
    others: Int64s  # (order - 1, all rows): the rows of the stacked tables that are multiplied
    shape: tuple[int, int, int]  # stack, rows, values of the hub
    rows: int  # without repetitions
    orders: tuple[tuple[Int64s | None, Int64s, Int64s], ...]  # per other table: _adding_order of its rows

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
        """Add the gradient with respect to the other tables, given that of their product."""
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
    """Blocks with all used cells (and unused ones of the same rows), and the cells of each block."""
    sizes = np.array(workload.domain.sizes, np.int64)
    first = np.concatenate([[0], np.cumsum(sizes)])
    groups: dict[tuple[int, int], list[int]] = {}
    for j, (start, end) in enumerate(zip(workload.starts[:-1], workload.starts[1:], strict=True)):
        attributes = workload.attributes[start:end]
        # The largest attribute is the hub, for the fewest rows.
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
            other_axes = np.delete(np.arange(order), at)
            values = np.unravel_index(kept, shape[other_axes]) if len(other_axes) else ()
            others.append(
                np.array([first[attributes[r]] + v for r, v in zip(other_axes, values, strict=True)]).reshape(
                    order - 1, len(kept)
                )
            )
            cells.append(table[kept])
        all_others, all_cells = np.concatenate(others, axis=1).astype(np.int64), np.concatenate(cells)
        width = min(int(sizes[hub]), VALUES_PER_BLOCK)
        rows = max(1, min(len(all_cells), SINGLE_THREAD_PRODUCT // (products * width)))
        for start in range(0, len(all_cells), rows * (ROWS_PER_BLOCK // rows)):
            some = slice(start, start + rows * (ROWS_PER_BLOCK // rows))
            count = len(all_cells[some])
            repeated = np.minimum(np.arange(-(-count // rows) * rows), count - 1)
            of_rows = all_others[:, some][:, repeated]
            orders = tuple(_adding_order(other) for other in of_rows)
            for value in range(0, int(sizes[hub]), width):
                block_cells = all_cells[some][repeated, value : value + width]
                of_hub = slice(int(first[hub]) + value, int(first[hub]) + value + block_cells.shape[1])
                block_cells = block_cells.reshape(-1, rows, block_cells.shape[1])
                yield _Block(of_hub, of_rows, block_cells.shape, count, orders), block_cells


def _adding_order(other: Int64s) -> tuple[Int64s | None, Int64s, Int64s]:
    """A stable sort order (None if sorted), the distinct numbers, and where each starts in it."""
    order = np.argsort(other, kind="stable")
    values, starts = np.unique(other[order], return_index=True)
    already = bool((order == np.arange(len(order))).all())
    return None if already else order, values, starts


class ProductFit:
    """Fits a mixture of products to measured answers, all of them released.

    Adam on the logits of the mixture's tables and weights, in single precision.

    cells_answers, precision: one per cell, fractions and inverse variances; precision 0: not measured.
    prior_weight: the number of records that the prior of independent attributes counts as (default: from the
    noise, `default_prior_weight`).
    """

    def __init__(
        self,
        workload: Workload,
        cells_answers: Float64s,
        precision: Float64s,
        *,
        products: int = 100,
        steps: int = 300,
        seed: int = 0,
        prior_weight: float | None = None,
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
        # Scales the loss so that gradients are near 1, and those of public records no larger.
        self._scale = 1 / max(float(precision.max()), 1.0)
        self._blocks: list[tuple[_Block, Floats, Floats]] = []  # with their answers and scaled precisions
        for block, cells in _blocks(workload, used, products):
            answers = np.where(used[cells], cells_answers[cells], 0.0).astype(np.float32)
            scaled = (precision[cells] * self._scale).astype(np.float32)
            scaled.reshape(-1, scaled.shape[2])[block.rows :] = 0.0  # repeated
            self._blocks.append((block, answers, scaled))
        self._batches: Iterator[list[int]] = iter(())
        self._rng = sampling_stream(seed)
        margins = one_way_margins(workload, cells_answers, precision)
        logits = np.log(np.concatenate(margins)).astype(np.float32)[:, None]
        noise = self._rng.uniform(-FIT.spread, FIT.spread, (len(logits), products)).astype(np.float32)
        self._margin_logs, self._prior_weight = logits, prior_weight * self._scale
        self._parameters = np.concatenate([logits + noise, np.zeros((1, products), np.float32)])
        self._adam, self._training, self._done = Adam(self._parameters), Training(steps, FIT.rate), 0
        self._rows: tuple[Int64s, Float64s, float] | None = None

    def add_rows(
        self,
        rows: npt.NDArray[Any],
        row_weights: Float64s | None,
        known: Sequence[int] | None,
        row_weight: float,
    ) -> None:
        """Add row_weight times the mean log likelihood of public records to the objective.

        rows, row_weights: their codes, records x attributes, and their weights (default: equal). known: the
        attributes that they have (default: all). row_weight: the number of records that they count as.
        """
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

    def fitted(self) -> Products:
        """Take all steps; returns the mixture."""
        while self.step():
            pass
        return self.products()

    def step(self) -> bool:
        """Take a step; False after the last."""
        if self._done == self._training.steps:
            return False
        _, gradient = self.gradient()
        self._adam.step(gradient, self._training.rate_at(self._done))
        self._done += 1
        return True

    def gradient(self) -> tuple[float, Floats]:
        """The loss, half the squared misfit in units of the best measured cell, and its gradient."""
        stacked, weights = self._tables()
        by_table, by_weight = np.zeros_like(stacked), np.zeros_like(weights)
        loss, batch, share = 0.0, *self._batch()
        for block, answers, precision in batch:
            factor, table = block.factor(stacked), stacked[block.hub]
            weighted = table * weights
            errors = factor @ weighted.T
            errors -= answers
            pull = errors * precision
            loss += float(np.einsum("ijk,ijk->", errors, pull)) / 2
            by_weighted = (pull.transpose(0, 2, 1) @ factor).sum(0)
            by_weight += np.einsum("ij,ij->j", by_weighted, table)
            by_table[block.hub] += by_weighted * weights
            block.add_gradient(stacked, pull @ weighted, by_table)
        if self._prior_weight:
            prior_weight = self._prior_weight * share
            information = np.log(stacked + TINY) - self._margin_logs
            of_products = np.einsum("ij,ij->j", stacked, information)
            loss += prior_weight * float(np.einsum("j,j->", weights, of_products))
            by_weight += prior_weight * of_products
            by_table += prior_weight * weights * information
        gradient = np.empty_like(self._parameters)
        along = stacked * by_table
        gradient[:-1] = along - stacked * np.add.reduceat(along, self._starts[:-1], axis=0)[self._attribute]
        gradient[-1] = weights * (by_weight - np.einsum("j,j->", weights, by_weight))
        if self._rows is not None:
            loss += self._add_rows_gradient(stacked, weights, gradient, share)
        return loss, gradient

    def _batch(self) -> tuple[list[tuple[_Block, Floats, Floats]], float]:
        """The blocks of a step, all or a random subset, and their share of all cells."""
        sizes = np.array([answers.size for _, answers, _ in self._blocks])
        if sizes.sum() <= CELLS_PER_STEP:
            return self._blocks, 1.0
        numbers = next(self._batches, None)
        if numbers is None:  # a random partition: each block comes once per epoch
            order = self._rng.permutation(len(sizes))
            parts = np.cumsum(sizes[order]) // CELLS_PER_STEP
            self._batches = iter([order[parts == part].tolist() for part in np.unique(parts)])
            numbers = next(self._batches)
        return [self._blocks[number] for number in numbers], float(sizes[numbers].sum() / sizes.sum())

    def _add_rows_gradient(self, stacked: Floats, weights: Floats, gradient: Floats, share: float) -> float:
        assert self._rows is not None
        rows, cumulated, row_weight = self._rows
        row_weight *= share
        batch = FIT.public_records
        if len(rows) > batch:
            rows = rows[np.searchsorted(cumulated[:-1], self._rng.random(batch), "right")]
            shares = np.full((batch, 1), 1 / batch, stacked.dtype)
        else:
            shares = np.diff(cumulated, prepend=0.0)[:, None].astype(stacked.dtype)
        scores = np.log(weights + TINY) + np.zeros((len(rows), 1), stacked.dtype)
        logs = np.log(stacked + TINY)
        for column in rows.T:
            scores += logs[column]
        largest = scores.max(1, keepdims=True)
        posterior = np.exp(scores - largest)
        total = posterior.sum(1, keepdims=True)
        loss = -row_weight * float((shares * (np.log(total) + largest)).sum())
        posterior *= shares / total
        of_products = posterior.sum(0)
        for column in rows.T:
            order, values, starts = _adding_order(column)
            terms = posterior if order is None else posterior[order]
            gradient[values] -= row_weight * np.add.reduceat(terms, starts, axis=0)
            attribute = self._attribute[column[0]]
            all_values = slice(self._starts[attribute], self._starts[attribute + 1])
            gradient[all_values] += row_weight * stacked[all_values] * of_products
        gradient[-1] -= row_weight * (of_products - weights)
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
    """Softmax of each segment of rows, column by column; a last start at the end is ignored."""
    begins = np.array([start for start in starts if start < len(logits)])
    segment = np.repeat(np.arange(len(begins)), np.diff(begins, append=len(logits)))
    shares = np.exp(logits - np.maximum.reduceat(logits, begins, axis=0)[segment])
    shares /= np.add.reduceat(shares, begins, axis=0)[segment]
    return shares


def one_way_margins(workload: Workload, cells_answers: Float64s, precision: Float64s) -> list[Float64s]:
    """The one-way margin of each attribute, averaged over the fully measured marginals that contain it.

    Weighted by inverse variance. Shares are at least a quarter of their noise, so that every value stays
    possible.
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
        shares = np.maximum(values / weights, np.maximum(0.25 / np.sqrt(weights), FIT.least_share))
        margins.append(shares / shares.sum())
    return margins


def _invert(cumulated: Float64s, rows: Int64s, stream: np.random.Generator) -> Int64s:
    """Draw one value for each of `rows`, rows of a table of unnormalised cumulative weights."""
    return _quantiles(cumulated, rows, stream.random(len(rows)))


def _quantiles(cumulated: Float64s, rows: Int64s, points: Float64s) -> Int64s:
    """The quantiles at `points` of these rows of unnormalised cumulative weights."""
    size = cumulated.shape[1]
    last = cumulated[:, -1:]
    flat = (cumulated / last + np.arange(len(cumulated))[:, None]).ravel()
    places = np.searchsorted(flat, rows + points, "right") - rows * size
    quantiles: Int64s = np.clip(places, 0, size - 1).astype(np.int64, copy=False)
    return quantiles
