"""MW-Pub (Liu et al., "Leveraging public data for practical private query release", 2021).

Multiplicative weights on the distinct public rows, started at their public frequencies. A round chooses by
permute-and-flip and measures with Gaussian noise, at the same cost each: with T rounds of zCDP budget rho,
epsilon0 = sqrt(rho / T), each costs epsilon0^2 / 2.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from privmw.accounting.rounding import Real
from privmw.algorithms.accounted import AccountPath
from privmw.algorithms.configuration import Algorithm, Select
from privmw.algorithms.loop import Model, Progress
from privmw.algorithms.options import lists_options
from privmw.algorithms.question import Question, Unit, check_inputs
from privmw.data.records import Records
from privmw.data.support import Start, Support
from privmw.data.workload import Workload
from privmw.models.multiplicative import MultiplicativeWeights, Output, Replay
from privmw.random import Rng
from privmw.release import Release

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


@lists_options
def release_mw_pub(
    private: Records | None,
    support: Support,
    workload: Workload,
    *,
    epsilon: Real | None = None,
    delta: Real | None = None,
    rho: Real | None = None,
    rounds: int | None = None,
    select: Select = "permute-and-flip",
    measure: Unit = "cell",
    per_round: int = 1,
    split: float = 0.5,
    warm_up: float = 0.0,
    order: int | None = None,
    replay: Replay = "paper",
    output: Output = "last",
    start: Start = "public",
    rng: Rng = None,
    threads: int | None = None,
    progress: Progress | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    every: int | None = 10,
    account: AccountPath = None,
    public_is_public: bool = False,
) -> Release:
    """Release by MW-Pub; the options of the algorithm are those of `MWPub`.

    epsilon and delta, or rho: the budget; without a delta it is 1 / n^2. rng, threads, progress, checkpoint,
    every, account and public_is_public: as for a calibrated `Mechanism`.

    >>> from privmw import Domain, Table
    >>> domain = Domain({"age": 3, "sex": 2})
    >>> private = Table.from_codes([[0, 0], [0, 1], [2, 1]] * 100, domain, private=True)
    >>> public = Table.from_codes([[0, 0], [0, 1], [2, 1], [1, 0]], domain, private=False)
    >>> support = Support.from_table(public)
    >>> release_mw_pub(private, support, Workload.all(domain, k=2), epsilon=1.0, delta=1e-6, rounds=5).n
    300
    """
    algorithm = MWPub(
        rounds=rounds,
        select=select,
        measure=measure,
        per_round=per_round,
        split=split,
        warm_up=warm_up,
        order=order,
        replay=replay,
        output=output,
        start=start,
    )
    support = algorithm.public_rows(support, workload)
    size = check_inputs(private, support, workload)
    mechanism = algorithm.calibrate(epsilon, delta, rho=rho, n=size.n)
    return mechanism.run_checked(
        size, private, support, workload, rng, threads, progress, checkpoint, every, account, public_is_public
    )
