"""MW-Pub (Liu et al., "Leveraging public data for practical private query release", 2021).

Multiplicative weights on the distinct public rows, started at their public frequencies. A round chooses by
permute-and-flip and measures with Gaussian noise, at the same cost each: with T rounds of zCDP budget rho,
epsilon0 = sqrt(rho / T), each costs epsilon0^2 / 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from privmw.algorithms.configuration import Algorithm
from privmw.algorithms.loop import Model
from privmw.algorithms.question import Question
from privmw.data.support import Start, Support
from privmw.models.multiplicative import MultiplicativeWeights, Output, Replay

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True, kw_only=True, repr=False)
class MWPub(Algorithm):
    """Multiplicative weights from a public start, under zCDP.

    replay: whether a round repeats earlier measurements, on the answers from before it ("paper") or on
    current ones ("fresh"). output: the last weights, or the average of all rounds' (the paper's text; far
    from the start it lags behind, see benches/journal/2026-11-accuracy.md). start: the public frequencies, or
    uniform.

    >>> mechanism = MWPub(rounds=100, measure="marginal").calibrate(epsilon=1.0, delta=1e-9)
    >>> mechanism.epsilon(1e-9) <= 1.0
    True
    """

    replay: Replay = "paper"
    output: Output = "last"
    start: Start = "public"

    @classmethod
    def as_published(cls, **options: object) -> Self:
        """What the text of the paper says: no replay, the average of all rounds; options: others as well.

        MWPub chooses by permute-and-flip, MWEMPub and MWEM by the exponential mechanism. The 2020 text of
        MWEM+PUB steps twice as far (it has no 1/2 in the exponent), which is not offered.

        >>> MWPub.as_published(rounds=50)
        MWPub(rounds=50, replay='none', output='average')
        """
        return cls(**{"replay": "none", "output": "average", **options})  # type: ignore[arg-type]

    @classmethod
    def as_run(cls, **options: object) -> Self:
        """What the authors' script ran: the exponential mechanism, replay, the last weights.

        The script calls its choice permute-and-flip, and draws by the exponential mechanism; its figures, and
        those of later papers, are of this. options: others as well.

        >>> MWPub.as_run(rounds=50)
        MWPub(rounds=50, select='exponential')
        """
        run = {"select": "exponential", "replay": "paper", "output": "last"}
        return cls(**{**run, **options})  # type: ignore[arg-type]

    def __post_init__(self) -> None:
        """Refuse options that mean nothing."""
        super().__post_init__()
        self._one_of("replay", Replay)
        self._one_of("output", Output)
        self._one_of("start", Start)

    def model(self, support: Support, question: Question, n: int, threads: int | None) -> Model:
        """A support moved by multiplicative weights."""
        return MultiplicativeWeights(
            support,
            question.workload,
            question.measured,
            n,
            start=self.start,
            replay=self.replay,
            output=self.output,
            threads=threads,
        )
