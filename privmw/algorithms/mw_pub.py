"""MW-Pub (Liu et al., "Leveraging public data for practical private query release", 2021).

Multiplicative weights on the distinct public rows, started at their public frequencies. A round chooses by
permute-and-flip and measures with Gaussian noise, at equal cost: with T rounds of zCDP budget rho and
epsilon0 = sqrt(rho / T), each of the two costs epsilon0^2 / 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from privmw.algorithms.configuration import Algorithm
from privmw.algorithms.loop import Model
from privmw.data.support import Start
from privmw.models.inputs import ModelInputs
from privmw.models.multiplicative import MultiplicativeWeights, Output, Replay

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True, kw_only=True, repr=False)
class MWPub(Algorithm):
    """Multiplicative weights from a public start, under zCDP.

    Parameters
    ----------
    rounds : int, optional
        Rounds of choosing, measuring and improving, at least 1; None is 50. Not with select='all'.
    select : {'permute-and-flip', 'exponential', 'all'}, default 'permute-and-flip'
        How a round chooses. 'all' measures every marginal once, with the whole budget, without rounds.
    measure : {'cell', 'marginal'}, default 'cell'
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
    replay : {'paper', 'fresh', 'none'}, default 'paper'
        Whether a round repeats the steps of earlier measurements: on the answers from before it
        ('paper'), on current ones ('fresh'), or not ('none').
    output : {'last', 'average'}, default 'last'
        The last weights, or the average over all rounds: the paper's text, which lags behind far from
        the start (benches/README.md).
    start : {'public', 'uniform'}, default 'public'
        First weights: the public frequencies, or equal ones.

    Examples
    --------
    >>> mechanism = MWPub(rounds=100, measure="marginal").calibrate(epsilon=1.0, delta=1e-9)
    >>> mechanism.epsilon(1e-9) <= 1.0
    True
    """

    replay: Replay = "paper"
    output: Output = "last"
    start: Start = "public"

    method: ClassVar[str] = "mw-pub"
    about: ClassVar[str] = (
        "multiplicative weights from a public start (MW-Pub): each noisy count makes the public rows "
        "it concerns heavier or lighter"
    )
    meanings: ClassVar[Mapping[str, str]] = {
        "start": "the first weights: public frequencies, or all rows alike",
        "replay": "whether a round repeated earlier measurements",
        "output": "whether the last weights were released, or the average of all rounds",
    }

    @classmethod
    def as_published(cls, **options: object) -> Self:
        """The algorithm of the paper's text: no replay, the average of all rounds. options: override others.

        MWPub chooses by permute-and-flip, MWEMPub and MWEM by the exponential mechanism. The 2020 text of
        MWEM+PUB steps twice as far (it has no 1/2 in the exponent), which is not offered.

        >>> MWPub.as_published(rounds=50)
        MWPub(rounds=50, replay='none', output='average')
        """
        return cls(**{"replay": "none", "output": "average", **options})  # type: ignore[arg-type]

    @classmethod
    def as_run(cls, **options: object) -> Self:
        """The algorithm of the authors' script: the exponential mechanism, replay, the last weights.

        The script calls its choice permute-and-flip, but uses the exponential mechanism; so do its figures
        and those of later papers. options: override others.

        >>> MWPub.as_run(rounds=50)
        MWPub(rounds=50, select='exponential')
        """
        run = {"select": "exponential", "replay": "paper", "output": "last"}
        return cls(**{**run, **options})  # type: ignore[arg-type]

    def __post_init__(self) -> None:
        super().__post_init__()
        self._one_of("replay", Replay)
        self._one_of("output", Output)
        self._one_of("start", Start)

    def model(self, inputs: ModelInputs) -> Model:
        """Return a support whose weights are updated multiplicatively."""
        return MultiplicativeWeights(inputs, start=self.start, replay=self.replay, output=self.output)
