"""Conversions between privacy notions: zCDP, (epsilon, delta), advanced composition, groups.

Every function returns a float on the safe side of the exact value: epsilon and delta rounded up, rho down.
The formulas hold for *any* order alpha, so floats may choose alpha. The value at that alpha is computed in
decimal arithmetic, whose ln, exp and sqrt are correctly rounded, and its error bound is added.

The other way, from a share of the budget to the parameter of one mechanism: the float returned and the event
made from it agree exactly, so a budget cut into shares is never exceeded in the last bit. No event and no
ledger is known here.
"""

import math
from collections.abc import Callable, Mapping
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, Context, Decimal, localcontext
from fractions import Fraction

from .rounding import (
    LARGEST_FLOAT,
    SMALLEST_FLOAT,
    Real,
    finite,
    float_down,
    float_up,
    largest_float,
    positive,
    positive_integer,
    probability,
    sqrt_down,
    sqrt_up,
)

# So close a bound moves a float by at most one unit in the last place.
_RELATIVE_SLACK = Fraction(1, 10**25)
# exp of more than this is above every float, whatever multiplies it.
_EXPONENT_LIMIT = 10_000


def epsilon_from_rho(rho: Real, delta: Real) -> float:
    """Return the epsilon such that rho-zCDP implies (epsilon, delta)-DP, tight over all orders, rounded up.

    epsilon = min over alpha > 1 of alpha rho + ln(1 - 1/alpha) + ln(1 / (alpha delta)) / (alpha - 1)
    (Canonne, Kamath and Steinke 2020). For delta = 0 zCDP implies no bound: infinity is returned.

    >>> round(epsilon_from_rho(0.0144352, 1 / 43944**2), 4)
    1.0
    """
    rho, delta = positive("rho", rho), probability("delta", delta, zero=True)
    return math.inf if delta == 0 else float_up(epsilon_bound(Fraction(rho), delta))


def rho_from_epsilon(epsilon: Real, delta: Real) -> float:
    """Return the largest rho whose zCDP implies (epsilon, delta)-DP by epsilon_from_rho, rounded down.

    epsilon_from_rho(rho_from_epsilon(epsilon, delta), delta) is never above epsilon.

    >>> round(rho_from_epsilon(1.0, 1 / 43944**2), 7)
    0.0144352
    """
    epsilon, delta = Fraction(positive("epsilon", epsilon)), probability("delta", delta)
    # With this margin, every rational total below this rho, however close, has an epsilon within the target.
    target = epsilon / (1 + 10**5 * _RELATIVE_SLACK)

    def holds(rho: float) -> bool:
        return epsilon_bound(Fraction(rho), delta) <= target

    rho = largest_float(holds, SMALLEST_FLOAT, LARGEST_FLOAT, guess=_guess_rho(float_down(epsilon), delta))
    if rho == SMALLEST_FLOAT and not holds(SMALLEST_FLOAT):
        raise ValueError(
            f"epsilon ({float_down(epsilon)}) must be larger: no positive rho is small enough for it"
        )
    return rho


def _guess_rho(epsilon: float, delta: float) -> float:
    """Estimate the rho of epsilon and delta, in floats: a starting point of the search, not a bound."""
    log_inverse = -math.log(delta)
    # At the best order, with x = alpha - 1: rho x^2 = ln(1/delta) - ln(1 + x), and by it
    # epsilon = rho (1 + 2x) - ln(1 + 1/x), which falls as x grows.

    def still_above(x: float) -> bool:
        return (log_inverse - math.log1p(x)) / x * (1 / x + 2) - math.log1p(1 / x) >= epsilon

    order = largest_float(still_above, 1e-300, 1e300)
    return (log_inverse - math.log1p(order)) / order / order


def delta_from_rho(rho: Real, epsilon: Real) -> float:
    """Return the delta such that rho-zCDP implies (epsilon, delta)-DP, tight over all orders, rounded up.

    delta = min over alpha > 1 of exp((alpha - 1)(alpha rho - epsilon) + alpha ln(1 - 1/alpha)) / (alpha - 1)

    >>> round(delta_from_rho(0.0144352, 1.0) * 43944**2, 3)
    1.0
    """
    rho, epsilon = Fraction(positive("rho", rho)), Fraction(positive("epsilon", epsilon))
    slope, offset = float_up(rho), float_up(epsilon)
    # The logarithm is convex in x = alpha - 1; its derivative is rho (1 + 2x) - epsilon - ln(1 + 1/x).
    order = largest_float(lambda x: slope * (1 + 2 * x) - math.log1p(1 / x) <= offset, 1e-300, 1e300)
    x = _short(order)

    def terms() -> list[Decimal]:
        alpha = 1 + x
        return [x * alpha * _decimal(rho), -x * _decimal(epsilon), x * x.ln(), -alpha * alpha.ln()]

    logarithm = min(_sum_up(terms, _digits(x)), Fraction(0))
    return SMALLEST_FLOAT if logarithm < -746 else _exp_up(logarithm)


def epsilon_bound(rho: Fraction, delta: float) -> Fraction:
    """Return a rational upper bound, within 1e-25 of its size, of the epsilon of rho-zCDP at delta.

    >>> 0.99 < epsilon_bound(Fraction(144, 10000), 5.18e-10) < 1.01
    True
    """
    if rho == 0:
        return Fraction(0)
    slope, log_inverse = float_up(rho), -math.log(delta)
    # In x = alpha - 1 the derivative vanishes at the one root of rho x^2 + ln(1 + x) = ln(1 / delta).
    order = largest_float(lambda x: slope * x * x + math.log1p(x) <= log_inverse, 1e-300, 1e300)
    x = _short(order)

    def terms() -> list[Decimal]:
        alpha = 1 + x
        return [alpha * _decimal(rho), x.ln(), -alpha / x * alpha.ln(), -Decimal(delta).ln() / x]

    return max(_sum_up(terms, _digits(x)), Fraction(0))


def epsilon_advanced(epsilon0: Real, rounds: int, delta: Real) -> float:
    """Return the epsilon of rounds adaptive runs, each epsilon0-DP, by advanced composition, rounded up.

    epsilon = sqrt(2 T ln(1 / delta)) epsilon0 + T epsilon0 (e^epsilon0 - 1)

    >>> round(epsilon_advanced(0.01, 100, 1e-9), 4)
    0.6538
    """
    epsilon0, rounds = positive("epsilon0", epsilon0), positive_integer("rounds", rounds)
    bound = advanced_bound({Fraction(epsilon0): rounds}, probability("delta", delta))
    return math.inf if bound is None else float_up(bound)


def epsilon0_advanced(epsilon: Real, rounds: int, delta: Real) -> float:
    """Return the largest epsilon0 for which epsilon_advanced stays within epsilon, rounded down.

    >>> epsilon_advanced(epsilon0_advanced(1.0, 100, 1e-9), 100, 1e-9) <= 1.0
    True
    """
    epsilon, rounds = Fraction(positive("epsilon", epsilon)), positive_integer("rounds", rounds)
    delta = probability("delta", delta)

    def holds(epsilon0: float) -> bool:
        bound = advanced_bound({Fraction(epsilon0): rounds}, delta)
        return bound is not None and bound <= epsilon

    if not holds(SMALLEST_FLOAT):
        raise ValueError(
            f"epsilon ({float_down(epsilon)}) must be larger: no positive epsilon0 is small enough"
        )
    # e^epsilon0 - 1 <= epsilon whenever epsilon0 >= 1, so epsilon0 never passes 1 + ln(1 + epsilon).
    return largest_float(holds, SMALLEST_FLOAT, 1 + math.log1p(float_up(epsilon)))


def advanced_bound(runs: Mapping[Fraction, int], delta: float) -> Fraction | None:
    """Return an upper bound of the advanced composition of runs {epsilon: count}; None if too large.

    sqrt(2 ln(1/delta) sum of epsilon_i^2) + sum of epsilon_i (e^epsilon_i - 1), also for unequal epsilon_i
    that are fixed beforehand; as the limit of a filter, also for epsilon_i that depend on results (Whitehouse
    et al. 2023).

    >>> float(advanced_bound({Fraction(1, 100): 100}, 1e-9)) < 0.6539
    True
    """
    if not runs:
        return Fraction(0)
    if max(runs) > _EXPONENT_LIMIT:
        return None
    squares = sum((count * epsilon**2 for epsilon, count in runs.items()), Fraction(0))

    def terms() -> list[Decimal]:
        parts = [(-2 * Decimal(delta).ln() * _decimal(squares)).sqrt()]
        for epsilon, count in runs.items():
            size = count * _decimal(epsilon)
            parts += [size * _decimal(epsilon).exp(), -size]
        return parts

    return _sum_up(terms, 0)


def epsilon_from_q(q: Real) -> float:
    """Return the epsilon of randomized response that keeps a bit with probability (1 + q) / 2, rounded up.

    epsilon = ln((1 + q) / (1 - q)), for q between 0 and 1.

    >>> epsilon_from_q(0.5) > math.log(3) - 1e-15
    True
    """
    kept = Fraction(positive("q", q))
    if kept >= 1:
        raise ValueError(f"q ({q}) must be above 0 and below 1")
    # The quotient is rounded up, the logarithm to nearest in any context: its successor is above.
    with localcontext(_context(60 + len(str(kept.denominator // kept.numerator)))) as context:
        context.rounding = ROUND_CEILING
        return float_up(Fraction(_decimal((1 + kept) / (1 - kept)).ln().next_plus()))


def delta_from_threshold(threshold: int, scale: Real, records: int = 1) -> float:
    """Return the probability, rounded up, that noise lifts counts of at most `records` in total to the
    threshold.

    Discrete Laplace noise is t or more with probability p^t / (1 + p), p = exp(-1 / scale). Of all ways to
    spread m records over cells the sum of these chances is largest for one cell, p^(threshold - m) / (1 + p),
    or for m cells, m p^(threshold - 1) / (1 + p): it is convex in each cell's number.

    >>> f"{delta_from_threshold(29, 2):.2e}"
    '5.18e-07'
    """
    threshold, records = positive_integer("threshold", threshold), positive_integer("records", records)
    rate = 1 / Fraction(positive("scale", scale))
    if threshold <= records:
        raise ValueError(f"threshold ({threshold}) must be above the records ({records})")

    def chance(distance: int, cells: int) -> Fraction:
        exponent = distance * rate
        if exponent > 800 + cells.bit_length():
            return Fraction(SMALLEST_FLOAT)
        with localcontext(_context(80)):
            tail, ratio = (Fraction(_decimal(-power).exp()) for power in (exponent, min(rate, Fraction(800))))
        return cells * tail / (1 + ratio) * (1 + _RELATIVE_SLACK)

    return min(float_up(max(chance(threshold - records, 1), chance(threshold - 1, records))), 1.0)


def group_rho(rho: Real, size: int) -> float:
    """Return the zCDP cost for a group of records: size^2 rho, rounded up.

    >>> group_rho(0.5, 3)
    4.5
    """
    return float_up(Fraction(positive("rho", rho)) * positive_integer("size", size) ** 2)


def group_epsilon(epsilon: Real, size: int) -> float:
    """Return the pure cost for a group of records: size epsilon, rounded up.

    >>> group_epsilon(0.5, 3)
    1.5
    """
    return float_up(Fraction(positive("epsilon", epsilon)) * positive_integer("size", size))


def group_approximate(epsilon: Real, delta: Real, size: int) -> tuple[float, float]:
    """Return the (epsilon, delta) of a group under (epsilon, delta)-DP, rounded up; a delta of 1 is no
    guarantee.

    epsilon becomes size epsilon, and delta becomes delta (e^(size epsilon) - 1) / (e^epsilon - 1). If zCDP
    holds, group_rho followed by epsilon_from_rho is far tighter.

    >>> group_approximate(0.5, 1e-9, 2)[0]
    1.0
    """
    epsilon = Fraction(positive("epsilon", epsilon))
    probability("delta", delta, zero=True)
    # Here delta is part of a guarantee, so its float must not be smaller than delta itself.
    delta = float_up(Fraction(finite("delta", delta)))
    size = positive_integer("size", size)
    whole = float_up(size * epsilon)
    if delta == 0 or size == 1:
        return whole, delta
    # e^800 times the smallest float is above 1; the sum has size terms of at least 1.
    if (size - 1) * epsilon > 800 or size * Fraction(delta) >= 1:
        return whole, 1.0
    # e^epsilon - 1 loses as many digits as 1 / epsilon has.
    with localcontext(_context(80 + len(str(epsilon.denominator // epsilon.numerator)))):
        ratio = ((size * _decimal(epsilon)).exp() - 1) / (_decimal(epsilon).exp() - 1)
        bound = Fraction(Decimal(delta) * ratio) * (1 + _RELATIVE_SLACK)
    return whole, min(float_up(bound), 1.0)


def _sum_up(terms: Callable[[], list[Decimal]], digits: int) -> Fraction:
    """Return the sum of terms plus its error bound, raising the precision until the bound is small.

    Each term takes at most ten correctly rounded steps. One of them may be an exp of at most 10^4, which
    magnifies the error of its argument by that factor. The sum of |term| times 10^(10 - precision) bounds all
    of it.
    """
    precision = 60 + digits
    while True:
        with localcontext(_context(precision)):
            parts = terms()
            slack = Fraction(sum(map(abs, parts), Decimal(0))) * Fraction(1, 10 ** (precision - 10))
            total = Fraction(sum(parts, Decimal(0)))
        # The last condition stops at sums that vanish exactly; the bound stays valid, but is no longer tight.
        if slack <= abs(total) * _RELATIVE_SLACK or precision > 4000:
            return total + slack
        precision *= 2


def _exp_up(logarithm: Fraction) -> float:
    with localcontext(_context(60)):
        return min(float_up(Fraction(_decimal(logarithm).exp()) * (1 + _RELATIVE_SLACK)), 1.0)


def _context(precision: int) -> Context:
    return Context(prec=precision, Emax=MAX_EMAX, Emin=MIN_EMIN)


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def _short(order: float) -> Decimal:
    """Return the order rounded to 16 digits: close enough to the best one, and 1 + x has few digits."""
    return Decimal(f"{order:.15e}")


def _digits(x: Decimal) -> int:
    """Return how many digits represent 1 + x exactly, so that its logarithm is accurate for tiny x."""
    return 20 + abs(x.adjusted())


def sigma_for_rho(rho: Real, l2_sensitivity_squared: Real) -> float:
    """Return the smallest float sigma of a discrete Gaussian whose cost l2^2 / (2 sigma^2) is at most rho.

    >>> sigma_for_rho(0.25, 2)
    2.0
    """
    square = Fraction(positive("l2_sensitivity_squared", l2_sensitivity_squared))
    return _usable("sigma", sqrt_up(square / (2 * Fraction(positive("rho", rho)))))


def scale_for_epsilon(epsilon: Real, l1_sensitivity: Real) -> float:
    """Return the smallest float scale of a discrete Laplace whose cost l1 / scale is at most epsilon.

    >>> scale_for_epsilon(0.5, 2)
    4.0
    """
    ratio = Fraction(positive("l1_sensitivity", l1_sensitivity)) / Fraction(positive("epsilon", epsilon))
    return _usable("scale", float_up(ratio))


def epsilon_for_rho_permute_and_flip(rho: Real) -> float:
    """Return the largest float epsilon of permute-and-flip whose cost epsilon^2 / 2 is at most rho.

    >>> epsilon_for_rho_permute_and_flip(0.5)
    1.0
    """
    return epsilon_for_rho(rho, 2)


def epsilon_for_rho_exponential(rho: Real) -> float:
    """Return the largest float epsilon of the exponential mechanism whose cost epsilon^2 / 8 is at most rho.

    >>> epsilon_for_rho_exponential(0.5)
    2.0
    """
    return epsilon_for_rho(rho, 8)


def epsilon_for_rho(rho: Real, divisor: int) -> float:
    """Return the largest float epsilon of a selection whose cost epsilon^2 / divisor is at most rho.

    >>> epsilon_for_rho(0.5, 8)
    2.0
    """
    return _usable("epsilon", sqrt_down(divisor * Fraction(positive("rho", rho))))


def threshold_for_delta(delta: Real, scale: Real, records: int = 1) -> int:
    """Return the least threshold that counts of at most `records` in all reach with probability <= delta.

    >>> threshold_for_delta(1e-6, 2)
    28
    """
    delta, records = probability("delta", delta), positive_integer("records", records)
    low, high = records, records + 1  # too low, perhaps high enough
    while delta_from_threshold(high, scale, records) > delta:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if delta_from_threshold(middle, scale, records) > delta:
            low = middle
        else:
            high = middle
    return high


def square_l2_sensitivity(l2_sensitivity: Real) -> int | Fraction:
    """Return the exact square of a sensitivity, reading the float nearest to an integer's root as that root.

    Counts are integers, so the square of an L2 sensitivity is one too, but its root is mostly irrational:
    math.sqrt(3) lies below the root of 3, and squaring it would understate the cost.

    >>> square_l2_sensitivity(math.sqrt(3)), square_l2_sensitivity(1.5)
    (3, Fraction(9, 4))
    """
    number = positive("l2_sensitivity", l2_sensitivity)
    square = Fraction(number) ** 2
    whole = round(square)
    if isinstance(number, float) and 0 < whole < 2**53 and math.sqrt(whole) == number:
        return whole
    return square.numerator if square.denominator == 1 else square


def _usable(name: str, value: float) -> float:
    if value == 0 or math.isinf(value):
        raise ValueError(
            f"{name} ({value}) must be positive and finite: the share is outside what a float can hold"
        )
    return value
