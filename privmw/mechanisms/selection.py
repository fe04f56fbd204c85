"""Accounted selection among candidates by private integer scores; larger scores are better.

One convention for all: with g = epsilon / (2 sensitivity), a candidate weighs exp(-g (largest - score)).
The exponential mechanism chooses in proportion to this, that is to exp(g score); permute-and-flip makes it
the probability of a coin. So the papers' exp(alpha epsilon0 n |error|) is epsilon = 2 alpha epsilon0 here.
Scores are private: no check depends on their values, and no message shows one.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from privmw.accounting import ExponentialMechanism, PermuteAndFlip, ReportNoisyMax
from privmw.accounting.events import SelectionEvent
from privmw.accounting.rounding import Real, positive, positive_integer
from privmw.kernels import draws
from privmw.mechanisms.noise import drawable
from privmw.random import Rng, Stream, privacy_stream
from privmw.secrecy import expect, expect_array, sealed, shown

Scores: TypeAlias = npt.NDArray[np.int64]
Kind: TypeAlias = Literal["permute-and-flip", "exponential", "report-noisy-max", "exponential-draws"]

MOST_CANDIDATES = 2**31 - 1
MOST_DRAWS_WITH_REPLACEMENT = 2**31  # the limit of csrc/draw

_DRAWS = {  # of kernels.draws
    "permute-and-flip": "select_permute_and_flip",
    "exponential": "select_exponential",
    "report-noisy-max": "report_noisy_max",
    "exponential-draws": "draw_exponential",
}
_EVENTS: dict[str, type[SelectionEvent]] = {
    "permute-and-flip": PermuteAndFlip,
    "exponential": ExponentialMechanism,
    "report-noisy-max": ReportNoisyMax,
    "exponential-draws": ExponentialMechanism,
}


@dataclass(frozen=True, slots=True)
class Selection:
    """A selection and its cost, before any score is seen: prepare it, charge its event, then draw.

    >>> Selection.prepare("exponential", candidates=9, sensitivity=1, epsilon=1, k=2).event.rho
    0.25
    """

    kind: str
    event: SelectionEvent
    weight: Fraction  # g: the change of the log odds per unit of score

    @classmethod
    def prepare(cls, kind: str, *, candidates: int, sensitivity: int, epsilon: Real, k: int = 1) -> Selection:
        """Validate every parameter; no later check depends on anything else."""
        if kind not in _EVENTS:
            raise ValueError(f"mechanism ({shown(kind)}) must be one of {', '.join(_EVENTS)}")
        if not 1 <= candidates <= MOST_CANDIDATES:
            raise ValueError(f"scores ({candidates} candidates) must have between 1 and 2^31 - 1 candidates")
        k, sensitivity = positive_integer("k", k), positive_integer("sensitivity", sensitivity)
        if kind == "exponential-draws":  # with replacement
            if k > MOST_DRAWS_WITH_REPLACEMENT:
                raise ValueError(f"k ({k}) must be at most 2^31")
        elif k > candidates:
            raise ValueError(f"k ({k}) must be at most the number of candidates ({candidates})")
        return _prepared(kind, candidates, sensitivity, positive("epsilon", epsilon), k)

    @sealed
    def draw(
        self, scores: Scores | draws.Errors, stream: Stream, excluded: Scores | None = None
    ) -> tuple[int, ...]:
        """Return the k chosen indices, in the order of choice. excluded: ascending indices that are not
        chosen.

        They are distinct unless drawn with replacement.
        """
        given = scores, self.weight.numerator, self.weight.denominator, self.event.count
        more = () if excluded is None else (self._checked(excluded),)
        return tuple(getattr(draws, _DRAWS[self.kind])(stream.bit_generator, *given, *more).tolist())

    def _checked(self, excluded: Any) -> Scores:
        right = isinstance(excluded, np.ndarray) and excluded.dtype == np.int64 and excluded.ndim == 1
        expect("excluded", excluded, right, "a 1-D numpy array of int64")
        edges = np.concatenate([[-1], excluded, [self.event.candidates + len(excluded)]])
        if (edges[1:] <= edges[:-1]).any():
            raise ValueError("excluded must ascend, within the candidates")
        checked: Scores = excluded
        return checked


# A cached pure function of public parameters: a loop prepares the same selection in every round. typed=True
# keeps 1 and 1.0 apart.
@lru_cache(maxsize=256, typed=True)
def _prepared(kind: str, candidates: int, sensitivity: int, epsilon: Real, k: int) -> Selection:
    # g = epsilon / (2 sensitivity)
    weight = drawable("epsilon / sensitivity", Fraction(epsilon) / (2 * sensitivity))
    return Selection(kind, _EVENTS[kind](epsilon, candidates, count=k), weight)


def _select(kind: Kind, scores: Scores, sensitivity: int, epsilon: Real, k: int | None, rng: Rng) -> Any:
    expect_array("scores", scores, np.int64)
    if scores.ndim != 1 or not scores.flags.c_contiguous:
        raise ValueError(f"scores ({scores.ndim} dimensions) must be one-dimensional and contiguous")
    selection = Selection.prepare(
        kind, candidates=scores.size, sensitivity=sensitivity, epsilon=epsilon, k=1 if k is None else k
    )
    chosen = selection.draw(scores, privacy_stream(rng))
    return chosen[0] if k is None else chosen, selection.event


@overload
def select_permute_and_flip(
    scores: Scores, *, sensitivity: int, epsilon: Real, k: None = None, rng: Rng = None
) -> tuple[int, PermuteAndFlip]: ...
@overload
def select_permute_and_flip(
    scores: Scores, *, sensitivity: int, epsilon: Real, k: int, rng: Rng = None
) -> tuple[tuple[int, ...], PermuteAndFlip]: ...
@sealed
def select_permute_and_flip(
    scores: Scores, *, sensitivity: int, epsilon: Real, k: int | None = None, rng: Rng = None
) -> tuple[int | tuple[int, ...], PermuteAndFlip]:
    """Choose one or k indices by permute-and-flip (McKenna and Sheldon 2020); returns the event charged too.

    Requires: int64 scores; one record moves each by at most the integer sensitivity; rng None for a release.
    Ensures: every candidate flips a coin of chance exp(-epsilon (largest - score) / (2 sensitivity)); one of
        the heads, uniformly. With k, k distinct indices: each chosen so among those the earlier ones left.
    Privacy: epsilon-DP, rho = epsilon^2 / 2; with k, k times that. Peeling is adaptive composition of k runs:
        given the earlier choices, which are released, a choice is one run on the candidates left.
    Numerics: exact; coins are decided by enclosures of exp of a rational, and differences cannot overflow.
        Time depends on the scores.
    Checked by:
        tests/mechanisms/test_mechanisms.py::test_selection_laws_of_neighbours_are_within_e_to_the_epsilon,
        tests/mechanisms/test_audit.py::test_what_the_audit_finds_is_within_the_claim

    >>> select_permute_and_flip(np.array([0, 900, 5]), sensitivity=1, epsilon=1)
    (1, PermuteAndFlip(epsilon=1, candidates=3, count=1))
    """
    result: tuple[int | tuple[int, ...], PermuteAndFlip]
    result = _select("permute-and-flip", scores, sensitivity, epsilon, k, rng)
    return result


@overload
def select_exponential(
    scores: Scores, *, sensitivity: int, epsilon: Real, k: None = None, rng: Rng = None
) -> tuple[int, ExponentialMechanism]: ...
@overload
def select_exponential(
    scores: Scores, *, sensitivity: int, epsilon: Real, k: int, rng: Rng = None
) -> tuple[tuple[int, ...], ExponentialMechanism]: ...
@sealed
def select_exponential(
    scores: Scores, *, sensitivity: int, epsilon: Real, k: int | None = None, rng: Rng = None
) -> tuple[int | tuple[int, ...], ExponentialMechanism]:
    """Choose one or k indices by the exponential mechanism; returns the event charged too.

    Requires: int64 scores; one record moves each by at most the integer sensitivity; rng None for a release.
    Ensures: index i with probability proportional to exp(epsilon score_i / (2 sensitivity)). With k, k
        distinct indices: each chosen so among those the earlier ones left.
    Privacy: epsilon-DP; rho = epsilon^2 / 8 (bounded range: Dong et al. 2020, Cesar and Rogers 2021); with k,
        k times that, by adaptive composition over the released choices.
    Numerics: exact rejection with coins of exp of a rational; differences cannot overflow.
        Time depends on the scores.
    Checked by:
        tests/mechanisms/test_mechanisms.py::test_selection_laws_of_neighbours_are_within_e_to_the_epsilon,
        tests/mechanisms/test_audit.py::test_what_the_audit_finds_is_within_the_claim

    >>> select_exponential(np.array([0, 900, 5]), sensitivity=1, epsilon=1, k=1)
    ((1,), ExponentialMechanism(epsilon=1, candidates=3, count=1))
    """
    result: tuple[int | tuple[int, ...], ExponentialMechanism]
    result = _select("exponential", scores, sensitivity, epsilon, k, rng)
    return result


@overload
def report_noisy_max(
    scores: Scores, *, sensitivity: int, epsilon: Real, k: None = None, rng: Rng = None
) -> tuple[int, ReportNoisyMax]: ...
@overload
def report_noisy_max(
    scores: Scores, *, sensitivity: int, epsilon: Real, k: int, rng: Rng = None
) -> tuple[tuple[int, ...], ReportNoisyMax]: ...
@sealed
def report_noisy_max(
    scores: Scores, *, sensitivity: int, epsilon: Real, k: int | None = None, rng: Rng = None
) -> tuple[int | tuple[int, ...], ReportNoisyMax]:
    """Choose the index of the largest score after exponential noise; same distribution as permute-and-flip.

    Requires: int64 scores; one record moves each by at most the integer sensitivity; rng None for a release.
    Ensures: the index of the largest score_i + E_i, E_i exponential of mean 2 sensitivity / epsilon; the law
        is permute-and-flip's (Ding et al. 2021). With k, k distinct indices by peeling, fresh noise each.
    Privacy: epsilon-DP, rho = epsilon^2 / 2; with k, k times that.
    Numerics: exact; noise is drawn digit by digit, as far as the comparison needs it. Kept as a cross-check.
        Time depends on the scores.
    Checked by: tests/mechanisms/test_mechanisms.py::test_noisy_max_and_permute_and_flip_share_one_law,
        tests/mechanisms/test_audit.py::test_what_the_audit_finds_is_within_the_claim

    >>> report_noisy_max(np.array([0, 900, 5]), sensitivity=1, epsilon=1)
    (1, ReportNoisyMax(epsilon=1, candidates=3, count=1))
    """
    result: tuple[int | tuple[int, ...], ReportNoisyMax]
    result = _select("report-noisy-max", scores, sensitivity, epsilon, k, rng)
    return result


@sealed
def draw_exponential(
    scores: Scores, *, sensitivity: int, epsilon: Real, k: int = 1, rng: Rng = None
) -> tuple[tuple[int, ...], ExponentialMechanism]:
    """Draw k indices by the exponential mechanism, with replacement; returns the event charged too.

    Requires: int64 scores; one record moves each by at most the integer sensitivity; rng None for a release.
    Ensures: k indices, each on its own i with probability proportional to exp(epsilon score_i / (2
        sensitivity)).
    Privacy: k runs of the exponential mechanism on the same scores: rho = k epsilon^2 / 8 (bounded range).
    Numerics: exact rejection with coins of exp of a rational; differences cannot overflow. The scores are
        looked at once for all k.
        Time depends on the scores.
    Checked by:
        tests/mechanisms/test_mechanisms.py::test_draws_with_replacement_have_the_law_of_single_ones,
        tests/mechanisms/test_audit.py::test_what_the_audit_finds_is_within_the_claim

    >>> draw_exponential(np.array([0, 900, 5]), sensitivity=1, epsilon=1, k=2)
    ((1, 1), ExponentialMechanism(epsilon=1, candidates=3, count=2))
    """
    result: tuple[tuple[int, ...], ExponentialMechanism]
    result = _select("exponential-draws", scores, sensitivity, epsilon, k, rng)
    return result
