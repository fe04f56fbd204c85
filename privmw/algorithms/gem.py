"""GEM and GEM-Pub (Liu, Vietri and Wu, "Iterative methods for private synthetic data", 2021).

A network generates products of distributions (privmw/models/generator.py). A round chooses what it answers
worst, never the same twice, and measures it; then the network is trained on all that was measured. With
public rows it is GEM-Pub: the network is trained on their answers first, without noise, also where they lack
columns. Rows drawn from the products, weighted by projection onto the measurements, are released.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import ClassVar

from privmw.algorithms.configuration import Algorithm, Select
from privmw.algorithms.loop import Model
from privmw.algorithms.plan import Effort
from privmw.algorithms.question import Question, Unit, check_public
from privmw.algorithms.rap import HEAVIEST, MOST_DRAWS, MOST_STEPS
from privmw.data.support import Support
from privmw.data.workload import Workload
from privmw.kernels.checks import check_integer
from privmw.models.generated import GeneratedRows, Loss, pretrained_generator
from privmw.models.generator import Generator, GeneratorShape
from privmw.secrecy import expect, shown


@dataclass(frozen=True, kw_only=True, repr=False)
class GEM(Algorithm):
    """A generator network trained on what was measured; GEM-Pub where there are public rows.

    rows: products of the mixture. inputs, widths: of the network, how much fixed noise a row begins with, and
    the outputs of each block. steps, rate: of training after each round; the rate falls to 0 as half a
    cosine. loss: what training lowers, the squared misfit of all measured cells ("squared") or, as in the
    paper, the mean absolute one of cells near the largest ("absolute"). prior_weight (squared): how many
    records independent attributes are worth; None chooses it from the noise. draws: how many records are
    drawn at the end; equal ones become one row of the release. epochs: of training on public rows, at most.
    pretrained: a file of `GEM.pretrain(...).save(file)` to begin with, instead of public rows. seed: of the
    sampling stream, which begins the network and draws the records; it protects nothing.

    >>> GEM(rounds=50).calibrate(rho=0.01).rho
    0.01
    >>> GEM.as_published(rounds=100).rows
    1000
    """

    select: Select = "exponential"
    measure: Unit = "marginal"
    split: float = 0.33
    warm_up: float = 0.1
    order: int | None = 1
    rows: int = 256
    inputs: int = 64
    widths: tuple[int, ...] = (128, 128)
    steps: int = 100
    rate: float = 3e-3
    draws: int = 20_000
    loss: Loss = "squared"
    prior_weight: float | None = None
    epochs: int = 2000
    seed: int = 0
    pretrained: str | None = None

    repeats: ClassVar[bool] = False
    # Of evaluations of the whole workload by weighted rows, which are faster than steps of training.
    effort: ClassVar[Effort] = Effort(shot=500, round=100)

    def __post_init__(self) -> None:
        """Refuse options that mean nothing."""
        super().__post_init__()
        shape = self.shape
        for name in ("rows", "inputs", "widths"):
            object.__setattr__(self, name, getattr(shape, name))
        for name, most in (("steps", MOST_STEPS), ("draws", MOST_DRAWS), ("epochs", MOST_STEPS)):
            object.__setattr__(self, name, check_integer(name, getattr(self, name), 1, most))
        object.__setattr__(self, "seed", check_integer("seed", self.seed, 0, 2**63 - 1))
        self._between("rate", 0, 1)
        self._one_of("loss", Loss)
        if self.prior_weight is not None and self._number("prior_weight") != 0:
            self._between("prior_weight", 0, HEAVIEST)
        if self.pretrained is not None:
            expect("pretrained", self.pretrained, str | os.PathLike, "the path of a file")
            object.__setattr__(self, "pretrained", os.fspath(self.pretrained))

    @classmethod
    def as_published(cls, **options: object) -> GEM:
        """GEM with the sizes and settings of the paper, for hours of a processor; options: others as well.

        A round chooses and measures single cells.

        >>> GEM.as_published().widths
        (1024, 1024)
        """
        published: dict[str, object] = {
            "measure": "cell",
            "split": 0.67,
            "warm_up": 0.0,
            "order": None,
            "rows": 1000,
            "inputs": 512,
            "widths": (1024, 1024),
            "rate": 1e-4,
            "loss": "absolute",
            "epochs": 10_000,
        }
        return cls(**{**published, **options})  # type: ignore[arg-type]

    @property
    def shape(self) -> GeneratorShape:
        """The sizes of the network."""
        return GeneratorShape(self.rows, self.inputs, self.widths)

    @property
    def completes(self) -> bool:
        """Whether the model completes public rows that lack attributes, or does without any."""
        return True

    def pretrain(self, support: Support, workload: Workload, threads: int | None = None) -> Generator:
        """Train a generator on public rows alone, to save and use as `pretrained`.

        >>> from privmw import Domain, Table
        >>> domain = Domain({"age": 3, "sex": 2})
        >>> public = Table.from_codes([[0, 0], [0, 1], [2, 1], [1, 0]], domain, private=False)
        >>> gem = GEM(rows=8, inputs=4, widths=(8,), epochs=20)
        >>> generator = gem.pretrain(Support.from_table(public), Workload.all(domain, k=2))
        >>> generator.tables().shape
        (5, 8)
        """
        check_public(support, workload, completes=True)
        if not support.table.for_release:
            raise ValueError(
                f"support ({shown(support)}, of a seeded release: not for release) must be of public "
                f"records: the file of a generator does not say what trained it"
            )
        return pretrained_generator(
            support, workload, self.shape, epochs=self.epochs, seed=self.seed, threads=threads
        )

    def added_rows(self, support: Support) -> int:
        """At most how many rows the model makes beside the support."""
        return self.draws

    def model(self, support: Support, question: Question, n: int, threads: int | None) -> Model:
        """A generator that is trained after each round."""
        return GeneratedRows(
            support,
            question.workload,
            question.measured,
            n,
            shape=self.shape,
            steps=self.steps,
            rate=self.rate,
            draws=self.draws,
            epochs=self.epochs,
            loss=self.loss,
            prior_weight=self.prior_weight,
            seed=self.seed,
            pretrained=self.pretrained,
            threads=threads,
        )
