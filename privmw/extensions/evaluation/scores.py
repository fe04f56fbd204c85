"""Scores of synthetic records beside the private ones. NOT PRIVATE: for experiments only.

k-marginal score and pMSE as NIST's scoreboard defines them, on codes; a classifier trained on the records and
tested on real ones; rules broken; records that look like private ones, beside held-out records of the same
population, which had no part in the release: if far more than half of the records are nearer to the private
ones than to those, records are copied. Needs scikit-learn (extra `evaluate`) for pMSE and the classifier.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from privmw.data.constraints import Constraints
from privmw.data.records import Records
from privmw.data.table import Table
from privmw.io.extras import need
from privmw.kernels.arrays import Float64s, Int64s
from privmw.release.errors.true_errors import RecordScores

MOST_COMPARED = 20_000  # private and synthetic records of each comparison
MOST_MATCHED = 2_000  # synthetic records whose nearest records are looked for
LARGEST_NUMBER_OF_PAIRS = 500  # of attributes
LEAST_OF_A_GROUP = 40  # private and synthetic records
AT_ONCE = 2**24  # compared values


class Sets(NamedTuple):
    """Codes of synthetic, private and held-out records; held_out may be None."""

    synthetic: Int64s
    private: Int64s
    held_out: Int64s | None


def scores_of(
    synthetic: Table,
    private: Records,
    *,
    target: str | None = None,
    by: str | None = None,
    constraints: Constraints | None = None,
    held_out: Records | None = None,
) -> tuple[RecordScores, ...]:
    """Scores of all records, then of each group of `by` with enough records."""
    domain = synthetic.domain
    sets = Sets(_codes(synthetic), _codes(private), None if held_out is None else _codes(held_out))
    place = None if target is None else domain.index(target)
    scores = [_scores("all records", sets, synthetic, place, constraints)]
    if by is not None:
        column = domain.index(by)
        for code in range(domain[by].size):
            parts: list[Any] = [None if part is None else part[part[:, column] == code] for part in sets]
            group = Sets(*parts)
            if min(len(group.synthetic), len(group.private)) >= LEAST_OF_A_GROUP:
                name = f"{by} = {domain[by].label(code)}"
                scores.append(_scores(name, group, synthetic, place, constraints))
    return tuple(scores)


def _codes(records: Records) -> Int64s:
    """The codes of at most MOST_COMPARED records, at even steps."""
    table = Table.concatenate(list(records.batches()))
    return table.codes()[:: -(-table.n // MOST_COMPARED)].astype(np.int64)


def _scores(
    group: str, sets: Sets, of: Table, target: int | None, constraints: Constraints | None
) -> RecordScores:
    sizes = of.domain.sizes
    auc, auc_of_real = (None, None) if target is None else _auc_of(sets, target)
    held_out = sets.held_out
    return RecordScores(
        group=group,
        records=len(sets.private),
        k_marginal=k_marginal(sets.synthetic, sets.private, sizes),
        pmse=_pmse(sets.synthetic, sets.private),
        auc=auc,
        auc_of_real=auc_of_real,
        broken=None if constraints is None else float((~constraints.allows(sets.synthetic)).mean()),
        same=float((_distances(sets.synthetic, sets.private) == 0).mean()),
        same_held_out=_same(sets.synthetic, held_out, len(sets.private)),
        nearer=_nearer(sets.synthetic, sets.private, held_out),
    )


def k_marginal(synthetic: Int64s, private: Int64s, sizes: tuple[int, ...]) -> float:
    """1000 times one minus the mean total variation of all pairs of attributes.

    >>> k_marginal(np.array([[0, 0], [1, 1]]), np.array([[0, 0], [0, 0]]), (2, 2))
    500.0
    """
    pairs = list(combinations(range(len(sizes)), 2)) or [(0, 0)]
    chosen = pairs[:: -(-len(pairs) // LARGEST_NUMBER_OF_PAIRS)]
    errors = [
        np.abs(_shares(synthetic, a, b, sizes) - _shares(private, a, b, sizes)).sum() / 2 for a, b in chosen
    ]
    return float(1000 * (1 - np.mean(errors)))


def _shares(codes: Int64s, a: int, b: int, sizes: tuple[int, ...]) -> Float64s:
    cells = codes[:, a] * sizes[b] + codes[:, b]
    return np.bincount(cells, minlength=sizes[a] * sizes[b]) / len(codes)


def _model(**limits: int) -> Any:
    """A gradient boosting classifier on codes as numbers."""
    ensemble = need("sklearn.ensemble", "score records", "evaluate")
    return ensemble.HistGradientBoostingClassifier(early_stopping=False, random_state=0, **limits)


def _pmse(synthetic: Int64s, private: Int64s) -> float:
    """Mean squared difference of the predicted propensity from the share of synthetic records, held out."""
    joined = np.concatenate([synthetic, private])
    labels = np.arange(len(joined)) < len(synthetic)
    share = labels.mean()
    fold = np.random.default_rng(0).integers(0, 2, len(joined))
    squares = np.empty(len(joined))
    careful = {"max_iter": 30, "max_leaf_nodes": 8, "min_samples_leaf": max(len(joined) // 50, 20)}
    for part in (0, 1):
        train, test = fold != part, fold == part
        if len(np.unique(labels[train])) < 2 or not test.any():
            return 0.0
        model = _model(**careful).fit(joined[train], labels[train])
        squares[test] = (model.predict_proba(joined[test])[:, 1] - share) ** 2
    return float(squares.mean())


def _auc_of(sets: Sets, target: int) -> tuple[float | None, float | None]:
    """The areas under the curve of classifiers trained on synthetic and on private records.

    Tested on held-out records; without these on a half of the private ones, the other half of which trains.
    """
    train, test = sets.private[::2], sets.private[1::2]
    if sets.held_out is not None and len(sets.held_out):
        train, test = sets.private, sets.held_out
    return _auc(sets.synthetic, test, target), _auc(train, test, target)


def _auc(train: Int64s, test: Int64s, target: int) -> float | None:
    """The mean over classes, by their shares, of the area under the curve of one against the rest."""
    classes = np.unique(train[:, target])
    if len(classes) < 2 or not len(test):
        return None
    rest = np.delete(np.arange(train.shape[1]), target)
    model = _model(max_iter=50).fit(train[:, rest], train[:, target])
    chances = model.predict_proba(test[:, rest])
    areas, weights = [], []
    for place, code in enumerate(classes):
        positive = test[:, target] == code
        if 0 < positive.sum() < len(test):
            areas.append(_area(chances[:, place], positive))
            weights.append(positive.mean())
    return float(np.average(areas, weights=weights)) if areas else None


def _area(scores: Float64s, positive: Any) -> float:
    """The chance that a positive one has the larger score, ties counting half."""
    _, ranks, counts = np.unique(scores, return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - (counts - 1) / 2
    hits, misses = int(positive.sum()), int((~positive).sum())
    return float((middle[ranks][positive].sum() - hits * (hits + 1) / 2) / (hits * misses))


def _distances(records: Int64s, among: Int64s) -> Int64s:
    """The number of attributes in which each of some records differs from the nearest of others."""
    records = records[:: -(-len(records) // MOST_MATCHED)]
    nearest = np.full(len(records), records.shape[1])
    step = max(AT_ONCE // max(len(records), 1), 1)
    for start in range(0, len(among), step):
        block = among[start : start + step]
        unlike = np.zeros((len(records), len(block)), np.int16)
        for column in range(records.shape[1]):
            unlike += records[:, column, None] != block[None, :, column]
        np.minimum(nearest, unlike.min(axis=1), out=nearest)
    return nearest


def _same(synthetic: Int64s, held_out: Int64s | None, n: int) -> float | None:
    if held_out is None or len(held_out) < LEAST_OF_A_GROUP:
        return None
    return float((_distances(synthetic, held_out[:n]) == 0).mean())


def _nearer(synthetic: Int64s, private: Int64s, held_out: Int64s | None) -> float | None:
    """The share of records nearer to private than to as many held-out ones; ties count half."""
    if held_out is None or len(held_out) < LEAST_OF_A_GROUP:
        return None
    n = min(len(private), len(held_out))
    one, other = (
        _distances(synthetic, part[np.random.default_rng(0).permutation(len(part))[:n]])
        for part in (private, held_out)
    )
    return float((one < other).mean() + (one == other).mean() / 2)
