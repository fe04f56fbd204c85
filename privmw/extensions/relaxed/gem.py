"""GEM and GEM-Pub (Liu, Vietri and Wu, "Iterative methods for private synthetic data", 2021).

A network generates products of distributions (generator.py). A round chooses what it answers worst, never
the same twice, and measures it; then the network is trained on all that was measured. With public rows it is
GEM-Pub: the network is trained on their answers first, without noise, also where they lack columns. Rows
drawn from the products, weighted by projection onto the measurements, are released.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from privmw.algorithms.configuration import Algorithm, Select
from privmw.algorithms.loop import Model
from privmw.algorithms.plan import Effort
from privmw.algorithms.task import Granularity, check_public
from privmw.data.support import Support
from privmw.data.workload import Workload
from privmw.extensions.relaxed.generated import GeneratedRows, Loss, pretrained_generator
from privmw.extensions.relaxed.generator import Generator, GeneratorShape
from privmw.extensions.relaxed.model import Draws
from privmw.extensions.relaxed.rap import HEAVIEST_PRIOR_WEIGHT, MOST_ROUNDING_DRAWS, MOST_STEPS
from privmw.kernels.checks import check_integer
from privmw.models.inputs import ModelInputs
from privmw.models.training import Training
from privmw.secrecy import expect, shown


@dataclass(frozen=True, kw_only=True, repr=False)
class GEM(Algorithm):
    """A generator network trained on what was measured; GEM-Pub where there are public rows.

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
    split : float, default 0.33
        Above 0 and below 1: the larger, the more of a round's budget is spent on choosing.
    warm_up : float, default 0.1
        Share of the budget, from 0 to below 1, for measuring every marginal once before the rounds.
    order : int, default 1
        Where every marginal is measured: those of all sets of this many attributes, instead of the
        workload's (None). With select='all' or a warm_up above 0.
    rows : int, default 256
        Products in the mixture, 1 to 100,000.
    inputs : int, default 64
        Fixed noise values with which a row begins, 1 to 16,384.
    widths : tuple of int, default (128, 128)
        Outputs of each block of the network, 1 to 16,384.
    steps : int, default 100
        Training steps after each round, 1 to 1,000,000.
    rate : float, default 0.003
        Step size, above 0 and below 1, when training begins; it falls to 0 as half a cosine.
    draws : int, default 20000
        Records drawn at the end, 1 to 10,000,000; equal ones become one row of the release.
    loss : {'squared', 'absolute'}, default 'squared'
        What training lowers: the squared misfit of all measured cells or, as in the paper, the mean
        absolute misfit of cells near the largest.
    prior_weight : float, optional
        With loss='squared': how many records independent attributes are worth, 0 to below 1e12. None
        chooses it from the noise.
    epochs : int, default 2000
        At most this many training steps on public rows, 1 to 1,000,000.
    seed : int, default 0
        Of the sampling stream, which makes the first state and the draws. At least 0; it protects nothing.
    pretrained : path, optional
        A file of `GEM.pretrain(...).save(file)` to begin with, instead of public rows.

    Examples
    --------
    >>> GEM(rounds=50).calibrate(rho=0.01).rho
    0.01
    >>> GEM.as_published(rounds=100).rows
    1000
    """

    select: Select = "exponential"
    measure: Granularity = "marginal"
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

    method: ClassVar[str] = "gem"
    about: ClassVar[str] = (
        "a generator network (GEM): it makes products of distributions, trained on public answers, if "
        "there are any, and on the noisy counts; rows were drawn from these, and weighed by the same "
        "counts"
    )
    meanings: ClassVar[Mapping[str, str]] = {
        "prior_weight": "how many records the start was worth; none: chosen by the noisy counts",
        "rows": "how many relaxed rows were fitted",
        "rate": "how far a gradient step went; none: the method's own",
        "steps": "how many gradient steps a round took",
        "draws": "how many records were drawn from the relaxed rows",
        "inputs": "how many numbers of fixed noise the network took for each row",
        "widths": "how many outputs each block of the network had",
        "loss": "what training lowered: squared misfits, or absolute ones near the largest",
        "epochs": "at most how many steps the network was trained on public answers",
        "pretrained": "the file of a network that public answers had trained",
        "seed": "of the stream that begins relaxed rows and draws records; it protects nothing",
    }

    repeats: ClassVar[bool] = False
    # Of evaluations of the whole workload by weighted rows, which are faster than steps of training.
    effort: ClassVar[Effort] = Effort(shot=500, round=100)

    def __post_init__(self) -> None:
        super().__post_init__()
        shape = self.shape
        for name in ("rows", "inputs", "widths"):
            object.__setattr__(self, name, getattr(shape, name))
        for name, most in (("steps", MOST_STEPS), ("draws", MOST_ROUNDING_DRAWS), ("epochs", MOST_STEPS)):
            object.__setattr__(self, name, check_integer(name, getattr(self, name), 1, most))
        object.__setattr__(self, "seed", check_integer("seed", self.seed, 0, 2**63 - 1))
        self._between("rate", 0, 1)
        self._one_of("loss", Loss)
        if self.prior_weight is not None and self._number("prior_weight") != 0:
            self._between("prior_weight", 0, HEAVIEST_PRIOR_WEIGHT)
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
    def fills_missing_columns(self) -> bool:
        """Whether the model fills columns that the public table lacks, or needs no public table."""
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
        check_public(support, workload, fills_missing_columns=True)
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

    def model(self, inputs: ModelInputs) -> Model:
        """A generator that is trained after each round."""
        return GeneratedRows(
            inputs,
            Draws(self.draws, self.seed, prior_weight=None),
            Training(self.steps, self.rate, self.prior_weight),
            shape=self.shape,
            epochs=self.epochs,
            loss=self.loss,
            pretrained=self.pretrained,
        )
