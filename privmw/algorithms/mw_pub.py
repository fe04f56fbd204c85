"""MW-Pub (Liu et al., "Leveraging public data for practical private query release", 2021).

Multiplicative weights on the distinct public rows, started at their public frequencies. A round chooses by
permute-and-flip and measures with Gaussian noise, at the same cost each: with T rounds of zCDP budget rho,
epsilon0 = sqrt(rho / T), each costs epsilon0^2 / 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from privmw.algorithms.algorithm import Algorithm
from privmw.algorithms.loop import Model
from privmw.algorithms.question import Question
from privmw.algorithms.shorthand import release_by
from privmw.data.records import Records
from privmw.data.support import Start, Support
from privmw.data.workload import Workload
from privmw.models import MultiplicativeWeights
from privmw.models.multiplicative import Output, Replay
from privmw.release import Release


@dataclass(frozen=True, kw_only=True, repr=False)
class MWPub(Algorithm):
    """Multiplicative weights from a public start, under zCDP.

    replay: whether a round repeats earlier measurements, on the answers from before it ("paper") or on
    current ones ("fresh"). output: the last weights, or the average of all rounds' (the paper's text; far
    from the start it lags behind, see benches/README.md). start: the public frequencies, or uniform.

    >>> mechanism = MWPub(rounds=100, measure="marginal").calibrate(epsilon=1.0, delta=1e-9)
    >>> mechanism.epsilon(1e-9) <= 1.0
    True
    """

    replay: Replay = "paper"
    output: Output = "last"
    start: Start = "public"

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
            question.asked,
            question.measured,
            n,
            start=self.start,
            replay=self.replay,
            output=self.output,
            threads=threads,
        )


def release_mw_pub(private: Records | None, support: Support, workload: Workload, **options: Any) -> Release:
    """Release by MW-Pub. Takes epsilon and delta (or rho), rng, threads, progress and MWPub's options.

    >>> from privmw import Domain, Table
    >>> domain = Domain({"age": 3, "sex": 2})
    >>> private = Table.from_codes([[0, 0], [0, 1], [2, 1]] * 100, domain, private=True)
    >>> support = Support.from_table(Table.from_codes([[0, 0], [0, 1], [2, 1], [1, 0]], domain))
    >>> release_mw_pub(private, support, Workload.all(domain, k=2), epsilon=1.0, delta=1e-6, rounds=5).n
    300
    """
    return release_by(MWPub, private, support, workload, options)
