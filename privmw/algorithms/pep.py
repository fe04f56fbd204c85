"""PEP (Liu, Vietri and Wu, "Iterative methods for private synthetic data", 2021): entropy projection.

After each round the model is the distribution closest to the start, in relative entropy, that fits every
measurement so far. The paper starts uniform and requires a fit within gamma (l1). The default here starts at
the public frequencies and weighs misfit, in units of its noise, against a prior of prior_weight records (l2),
which is always feasible. privmw/models/projection solves both, with a certificate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from privmw.algorithms.configuration import Algorithm, Select
from privmw.algorithms.loop import Model
from privmw.algorithms.plan import Effort
from privmw.algorithms.task import Granularity
from privmw.data.support import Start, Support
from privmw.models.grown import COMPLETED, LARGEST_WIDENED, GrowingModel
from privmw.models.inputs import ModelInputs
from privmw.models.projected import Kind, ProjectionModel
from privmw.secrecy import shown

LIGHTEST_ALLOWED_PRIOR, HEAVIEST_ALLOWED_PRIOR = (
    1e-3,
    1e12,
)  # records: outside, the start is no prior, or nothing is fitted
FEWEST_PARTICLES, MOST_PARTICLES = 100, 10_000_000


@dataclass(frozen=True, kw_only=True, repr=False)
class PEP(Algorithm):
    """Projection onto all measurements, from a public or uniform start, on a public support or a full one.

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
    start : {'public', 'uniform'}, default 'public'
        First weights: the public frequencies, or equal ones.
    slack : {'l1', 'l2'}, default 'l2'
        'l2' weighs misfit by its noise against a prior weight; 'l1' fits every answer within gamma.
    gamma : float, optional
        With slack='l1': how far an answer may be missed, as a fraction from 0 to below 1. None takes each
        measurement's standard deviation. Where no distribution on the support is that near, or none can be
        certified, gamma is doubled until one is; the history records it.
    prior_weight : float, optional
        With slack='l2': how many records the start is worth, above 0.001 and below 1e12. None chooses it
        from the measurements, at no cost.
    particles : int, optional
        With slack='l2', start='public' and no prior_weight: records, 100 to 10,000,000, that move through
        the domain at the last round to become rows that the public table lacks. None adds no row.

    Examples
    --------
    >>> PEP(rounds=25, measure="marginal", prior_weight=300).calibrate(rho=0.01).rho
    0.01
    """

    select: Select = "exponential"
    measure: Granularity = "marginal"
    start: Start = "public"
    slack: Kind = "l2"
    gamma: float | None = None
    prior_weight: float | None = None
    particles: int | None = None

    method: ClassVar[str] = "pep"
    about: ClassVar[str] = (
        "projection (PEP): of all ways to weigh the rows, the one nearest to the start that fits the "
        "noisy counts"
    )
    meanings: ClassVar[Mapping[str, str]] = {
        "start": "the first weights: public frequencies, or all rows alike",
        "slack": "how a misfit to the noisy counts was allowed for",
        "gamma": "how far a noisy count might be missed",
        "prior_weight": "how many records the start was worth; none: chosen by the noisy counts",
        "particles": "how many records moved through the domain to become rows that the public table lacks",
    }

    # A projection takes tens of passes, and choosing the prior weight takes several projections.
    effort: ClassVar[Effort] = Effort(shot=500, round=12, passes=60)

    @classmethod
    def as_published(cls, **options: object) -> PEP:
        """The algorithm of the paper's text: single cells, a uniform start, a fit within gamma (l1).

        The text does not specify gamma; here it is each measurement's standard deviation. options: override
        others.

        >>> PEP.as_published(rounds=50)
        PEP(rounds=50, measure='cell', start='uniform', slack='l1')
        """
        published = {"measure": "cell", "start": "uniform", "slack": "l1"}
        return cls(**{**published, **options})  # type: ignore[arg-type]

    @classmethod
    def as_run(cls, **options: object) -> PEP:
        """The algorithm of the authors' script: as published, with a gamma of 0. options: override others.

        The script took at most 25 steps towards each projection; here it is solved to the end. If noisy
        counts contradict each other there is no exact fit: gamma then grows until there is one, as recorded
        in the history.

        >>> PEP.as_run(rounds=50)
        PEP(rounds=50, measure='cell', start='uniform', slack='l1', gamma=0.0)
        """
        return cls.as_published(**{"gamma": 0.0, **options})

    def __post_init__(self) -> None:
        super().__post_init__()
        self._one_of("start", Start)
        self._one_of("slack", Kind)
        if self.prior_weight is not None:
            self._between("prior_weight", LIGHTEST_ALLOWED_PRIOR, HEAVIEST_ALLOWED_PRIOR)
        if self.gamma is not None:
            if self.slack == "l2":
                raise ValueError(f"gamma ({shown(self.gamma)}) must come with slack='l1'")
            if self._number("gamma") != 0:
                self._between("gamma", 0, 1)
        if self.particles is not None:
            self._positive_integer("particles")
            if not FEWEST_PARTICLES <= self.particles <= MOST_PARTICLES:
                raise ValueError(
                    f"particles ({self.particles}) must be from {FEWEST_PARTICLES} to {MOST_PARTICLES:,}"
                )
            if self.slack != "l2" or self.start != "public" or self.prior_weight is not None:
                raise ValueError(
                    f"particles ({self.particles}) must come with slack='l2', start='public' and a prior "
                    f"weight that is chosen"
                )

    @property
    def fills_missing_columns(self) -> bool:
        """Whether the model fills columns that the public table lacks, or needs no public table."""
        return self.particles is not None

    def added_rows(self, support: Support) -> int:
        """An upper bound of the number of rows added to the support: particles and their starting rows."""
        if self.particles is None:
            return 0
        return self.particles + (COMPLETED if support.missing else LARGEST_WIDENED)

    def model(self, inputs: ModelInputs) -> Model:
        """Return a support that is projected after each round, and may grow after the last."""
        if self.particles is not None:
            return GrowingModel(inputs, particles=self.particles)
        return ProjectionModel(
            inputs,
            start=self.start,
            slack=self.slack,
            gamma=self.gamma,
            prior_weight=self.prior_weight,
        )
