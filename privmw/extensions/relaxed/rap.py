"""RAP, relaxed adaptive projection (Aydore et al. 2021; Liu, Vietri and Wu, "Iterative methods", 2021).

No public table is needed: the model is `rows` relaxed rows, fitted to all measurements so far by Adam on the
squared misfit (relaxed_rows.py). With softmax each row is a product of distributions, one for every
attribute ("RAP softmax" of the 2021 paper, and the better of the two); without, it is clipped numbers. What
is released are rows drawn from these, weighted by the projection onto what was measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from privmw.algorithms.configuration import Algorithm, Select
from privmw.algorithms.loop import Model
from privmw.algorithms.plan import Effort
from privmw.algorithms.task import Granularity
from privmw.data.support import Support
from privmw.data.workload import Workload
from privmw.extensions.relaxed.model import Draws
from privmw.extensions.relaxed.relaxed_rows import RelaxedRows
from privmw.kernels.checks import check_integer
from privmw.models.inputs import ModelInputs
from privmw.models.training import Training
from privmw.secrecy import expect, shown

MOST_RELAXED_ROWS, MOST_STEPS, MOST_ROUNDING_DRAWS = 100_000, 1_000_000, 10_000_000
RATES = {True: 0.2, False: 5e-3}  # of softmax and of clipped rows
PUBLISHED_RATES = {True: 0.1, False: 5e-3}
HEAVIEST_PRIOR_WEIGHT = 1e12  # records: heavier, nothing is fitted


@dataclass(frozen=True, kw_only=True, repr=False)
class RAP(Algorithm):
    """Relaxed rows fitted by gradient steps, without a public table.

    Parameters
    ----------
    rounds : int, optional
        Rounds of choosing, measuring and improving, at least 1; None is 50. Not with select='all'.
    select : {'permute-and-flip', 'exponential', 'all'}, default 'exponential'
        How a round chooses. 'all' measures every marginal once, with the whole budget, without rounds.
    measure : {'cell', 'marginal'}, default 'marginal'
        What is chosen and measured: single cells or whole marginals.
    per_round : int, default 1
        How many are chosen in a round, at least 1.
    split : float, default 0.5
        Above 0 and below 1: the larger, the more of a round's budget is spent on choosing.
    warm_up : float, default 0.0
        Share of the budget, from 0 to below 1, for measuring every marginal once before the rounds.
    order : int, optional
        Where every marginal is measured: those of all sets of this many attributes, instead of the
        workload's (None). With select='all' or a warm_up above 0.
    rows : int, default 300
        Relaxed rows, 1 to 100,000.
    softmax : bool, default True
        Whether a row is a product of distributions. If not, answers of the model may leave 0 to 1, and are
        clipped where a round chooses by them.
    rate : float, optional
        Step size of Adam, above 0 and below 10; None is 0.2 with softmax and 0.005 without.
    steps : int, default 150
        Steps of Adam in each round, 1 to 1,000,000.
    prior_weight : float, optional
        With softmax: how many records independent attributes are worth in each fit, 0 to below 1e12.
        None chooses it from the noise; 0 is the papers' loss.
    draws : int, default 20000
        Records drawn at the end, 1 to 10,000,000; equal ones become one row of the release.
    seed : int, default 0
        Of the sampling stream, which makes the first state and the draws. At least 0; it protects nothing.

    Examples
    --------
    >>> RAP(rounds=10, per_round=5).calibrate(rho=0.01).rho
    0.01
    """

    select: Select = "exponential"
    measure: Granularity = "marginal"
    rows: int = 300
    softmax: bool = True
    rate: float | None = None
    steps: int = 150
    prior_weight: float | None = None
    draws: int = 20_000
    seed: int = 0

    method: ClassVar[str] = "rap"
    about: ClassVar[str] = (
        "relaxed projection (RAP): products of distributions, fitted to the noisy counts, from which "
        "rows were drawn, and weighed by the same counts"
    )
    takes_no_public: ClassVar[str] = "it makes its rows itself"
    meanings: ClassVar[Mapping[str, str]] = {
        "prior_weight": "how many records the start was worth; none: chosen by the noisy counts",
        "rows": "how many relaxed rows were fitted",
        "softmax": "whether a relaxed row was a product of distributions, or numbers clipped to -1 to 1",
        "rate": "how far a gradient step went; none: the method's own",
        "steps": "how many gradient steps a round took",
        "draws": "how many records were drawn from the relaxed rows",
        "seed": "of the stream that begins relaxed rows and draws records; it protects nothing",
    }

    # On ADULT: a fit of 286 marginals, and of a few chosen ones.
    effort: ClassVar[Effort] = Effort(shot=400, round=25)

    @classmethod
    def as_published(cls, *, softmax: bool = True, rounds: int = 50, per_round: int = 1) -> RAP:
        """The papers' sizes: 1,000 rows, single cells, 5,000 steps a round, no prior.

        >>> RAP.as_published(rounds=10, per_round=5)
        RAP(rounds=10, measure='cell', per_round=5, rows=1000, rate=0.1, steps=5000, prior_weight=0.0)
        """
        expect("softmax", softmax, bool, "True or False")
        return cls(
            rounds=rounds,
            per_round=per_round,
            measure="cell",
            rows=1000,
            softmax=softmax,
            rate=PUBLISHED_RATES[softmax],
            steps=5000,
            prior_weight=0.0 if softmax else None,
        )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, most in (
            ("rows", MOST_RELAXED_ROWS),
            ("steps", MOST_STEPS),
            ("draws", MOST_ROUNDING_DRAWS),
        ):
            object.__setattr__(self, name, check_integer(name, getattr(self, name), 1, most))
        object.__setattr__(self, "seed", check_integer("seed", self.seed, 0, 2**63 - 1))
        expect("softmax", self.softmax, bool, "True or False")
        if self.rate is not None:
            self._between("rate", 0, 10)
        if self.prior_weight is not None:
            if not self.softmax:
                raise ValueError(f"prior_weight ({shown(self.prior_weight)}) must come with softmax=True")
            if self._number("prior_weight") != 0:
                self._between("prior_weight", 0, HEAVIEST_PRIOR_WEIGHT)

    @property
    def fills_missing_columns(self) -> bool:
        """Whether the model does without public rows: it has none."""
        return True

    def public_rows(self, support: Support | None, workload: Workload) -> Support:
        """The support of a run: no public row. Public rows are refused, as the model could not use them."""
        if isinstance(support, Support) and support.records:
            raise ValueError(
                f"support ({shown(support)}) must be None: RAP makes its rows itself; MWPub, PEP and "
                f"release_auto use public ones"
            )
        return super().public_rows(support, workload)

    def added_rows(self, support: Support) -> int:
        """At most how many rows the model makes: the records drawn."""
        return self.draws

    def model(self, inputs: ModelInputs) -> Model:
        """Relaxed rows."""
        rate = RATES[self.softmax] if self.rate is None else self.rate
        return RelaxedRows(
            inputs,
            Draws(self.draws, self.seed),
            Training(self.steps, rate, self.prior_weight),
            rows=self.rows,
            softmax=self.softmax,
        )
