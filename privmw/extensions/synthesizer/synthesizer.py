"""The front in the shape of scikit-learn: `Synthesizer(epsilon=1).fit(private, public=public).sample(1000)`.

For those who know that shape from other libraries. It reads both frames, proposes a domain from the public
one, and runs `release_auto` or the algorithm given: everything else is in the release that it keeps. The
constructor stores its parameters as they are, and `fit` checks them, before anything is spent, so that
scikit-learn's `clone` and `set_params` work; scikit-learn itself is not needed.
"""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

import numpy as np

from privmw.accounting.rounding import Real
from privmw.algorithms.auto import release_auto
from privmw.algorithms.configuration import Configuration, make_budget
from privmw.algorithms.options import AccountPath, check_options, lists_options
from privmw.data.constraints import Constraints
from privmw.data.domain import Domain
from privmw.data.propose import propose
from privmw.data.records import Bins, Records
from privmw.data.support import Support
from privmw.data.table import Table
from privmw.data.workload import Workload
from privmw.io.files import same_contents
from privmw.io.scan import read_table
from privmw.kernels.checks import check_integer
from privmw.random import Rng
from privmw.release import Release
from privmw.secrecy import expect, sealed, shown

SOME = 1000  # records, before their number is known


class Synthesizer:
    """Synthetic records of a private frame, with differential privacy, from a public one if there is one.

    epsilon, delta: the budget of one `fit`; a delta of None is 1 / n^2. domain: a `Domain`, or what it is
    made of; None proposes one from the public frame. marginals: how many attributes the marginals have that
    the records are to keep, or a list of marginals, or a `Workload`. algorithm: a configuration such as
    `PEP(rounds=20)`; None is `release_auto`. bins: what a bin becomes in the records, as for
    `Table.to_frame`; None draws from the public records, or spreads values without them. target: an attribute
    to be predicted from the others; the marginals of the largest order are those that hold it, and all of the
    order below (docs/parameters.md). constraints: rules that every record keeps: `Constraints`, or the path
    or content of their file. unit, at_most: what is protected, as for `read_table`. account: of the
    private table, which adds up what every fit spends.
    rng: a seed for experiments, which marks the records as not for release. threads: of the kernels.
    public_is_public: take public records although many are private ones, which will be published.

    After `fit`: `release_`, a `Release`, `domain_`, `workload_`, and `notes_` about the proposed domain.

    >>> import pandas
    >>> public = pandas.DataFrame({"sex": ["F", "M"] * 50, "rooms": [1, 2, 3, 2] * 25})
    >>> private = pandas.DataFrame({"sex": ["F", "M", "M"] * 200, "rooms": [2, 3, 1] * 200})
    >>> synthesizer = Synthesizer(epsilon=1.0, marginals=2).fit(private, public=public)
    >>> synthesizer
    Synthesizer(marginals=2)
    >>> synthesizer.sample(1000).shape
    (1000, 2)
    >>> synthesizer.release_.ledger.epsilon(1e-5) < 1.0
    True
    """

    release_: Release
    domain_: Domain
    workload_: Workload
    notes_: tuple[str, ...]

    @lists_options
    def __init__(
        self,
        *,
        epsilon: Real = 1.0,
        delta: Real | None = None,
        domain: Domain | Mapping[str, object] | str | os.PathLike[str] | None = None,
        marginals: int | Sequence[Sequence[str]] | Workload = 3,
        algorithm: Configuration | None = None,
        bins: Bins | None = None,
        target: str | None = None,
        constraints: Constraints | Mapping[str, object] | str | os.PathLike[str] | None = None,
        unit: str | None = None,
        at_most: int | None = None,
        account: AccountPath = None,
        rng: Rng = None,
        threads: int | None = None,
        public_is_public: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.domain = domain
        self.marginals = marginals
        self.algorithm = algorithm
        self.bins = bins
        self.target = target
        self.constraints = constraints
        self.unit = unit
        self.at_most = at_most
        self.account = account
        self.rng = rng
        self.threads = threads
        self.public_is_public = public_is_public

    @sealed
    def fit(self, private: Any, *, public: Any = None) -> Synthesizer:
        """Make a release of a private frame, and spend epsilon on it: at every call, and the sum counts.

        Frames are of pandas, polars or pyarrow; paths of files and tables are taken as well. A public frame
        may have fewer columns. Without a public frame a domain must be given: nothing may be learned from
        the private one beforehand.
        """
        expect("algorithm", self.algorithm, Configuration | None, "a configuration, such as PEP()")
        if self.bins is not None and self.bins not in get_args(Bins):
            words = ", ".join(map(repr, get_args(Bins)))
            raise ValueError(f"bins ({shown(self.bins)}) must be None or one of {words}")
        if self.bins == "draw" and (public is None or isinstance(public, Records)):
            raise ValueError("bins ('draw') must come with a public frame or file, whose values are drawn")
        make_budget(self.epsilon, self.delta, n=SOME if self.delta is None else None)  # refuses a wrong one
        if public is not None and not self.public_is_public and _same_table(private, public):
            raise ValueError(
                "public must be another table than private: public rows are published as they are; "
                "public_is_public=True confirms that they are not secret"
            )
        domain, notes = self._domain(private, public)
        workload = self._workload(domain)
        constraints = self._constraints(domain)
        support = None if constraints is None else Support.without_public(domain, constraints)
        if public is not None:
            rows = self._table("public", public, domain, private=False)
            support = Support.from_table(rows, constraints, domain=domain)
            if lost := rows.n - support.records:
                broken = f"{lost:,} of {rows.n:,} records break a constraint, and are left out"
                notes = (*notes, f"public: {broken}")
        drawn_from = None if isinstance(public, Records) else public
        lacking = (
            []
            if support is None or public is None
            else [n for n in support.missing if domain[n].edges is not None]
        )
        if lacking and self.bins == "draw":
            raise ValueError(f"bins ('draw') must come with a public column {shown(lacking[0])} to draw from")
        if lacking and all(a.name in lacking for a in domain.attributes if a.edges is not None):
            drawn_from = None
        said: list[str] = []
        table = self._table("private", private, domain, private=True, on_note=said.append)
        for line in said:
            if " left out:" in line:
                warnings.warn(f"private {line}", UserWarning, stacklevel=3)
        names = ("rng", "threads", "account", "public_is_public")
        run = {name: getattr(self, name) for name in names}
        if self.algorithm is None:
            release = release_auto(
                table,
                support,
                workload,
                epsilon=self.epsilon,
                delta=self.delta,
                **run,
            )
        else:
            mechanism = self.algorithm.calibrate(
                self.epsilon, self.delta, n=table.n or None, at_most=table.at_most
            )
            release = mechanism(table, support, workload, **run)
        self.release_, self.domain_, self.workload_, self.notes_ = release, domain, workload, (*notes, *said)
        self.feature_names_in_ = np.array(domain.names, object)
        self.n_features_in_ = len(domain)
        self._drawn_from = drawn_from
        return self

    def sample(
        self, n: int | None = None, seed: int | None = None, conditions: Mapping[str, object] | None = None
    ) -> Any:
        """Synthetic records in a frame of the kind that came in; n: how many, by default as many as private.

        Post-processing: it costs nothing, however often. seed: of the sampling stream. conditions: only
        records that meet them, such as {"sex": "F", "state": ["HI", "NM"]}; see `Release.sample`.
        """
        if not self.__sklearn_is_fitted__():
            raise ValueError("Synthesizer must be fitted first: fit(private, public=public)")
        bins = self.bins or ("spread" if self._drawn_from is None else "draw")
        public = self._drawn_from if bins == "draw" else None
        records = self.release_.sample(n, seed, conditions=conditions)
        return records.to_frame(bins=bins, public=public, seed=seed)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name. deep: for scikit-learn; no parameter has parameters of its own.

        >>> Synthesizer(epsilon=2.0).get_params()["epsilon"]
        2.0
        """
        return {name: getattr(self, name) for name in _defaults()}

    def set_params(self, **params: Any) -> Synthesizer:
        """Change some parameters; an unknown one is refused with a list of those there are.

        >>> Synthesizer().set_params(epsilom=2.0)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        TypeError: option ('epsilom') must be one of epsilon, delta, ...; did you mean epsilon?
        """
        check_options(params, list(_defaults()))
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def _domain(self, private: Any, public: Any) -> tuple[Domain, tuple[str, ...]]:
        if isinstance(self.domain, Domain):
            return self.domain, ()
        if self.domain is not None:
            return Domain.read(self.domain), ()
        for table in (private, public):
            if isinstance(table, Records):
                return table.domain, ()
        if public is None:
            raise ValueError(
                "domain (None) must be given where there is no public frame to propose one from, such as "
                '{"age": {"edges": [0, 18, 65, 120]}, "sex": ["F", "M"]}: nothing may be learned from the '
                "private frame beforehand"
            )
        proposal = propose(public)
        left_out = [note for note in proposal.notes if " left out" in note]
        if left_out:
            warnings.warn(
                f"{'; '.join(left_out)}: give a domain that has them, or drop them", UserWarning, stacklevel=4
            )
        return proposal.domain, proposal.notes

    def _constraints(self, domain: Domain) -> Constraints | None:
        given = self.constraints
        if given is None or isinstance(given, Constraints):
            return given
        right = isinstance(given, Mapping | str | os.PathLike)
        expect("constraints", given, right, "Constraints, or the path or content of their file", quote=False)
        return Constraints(given, domain) if isinstance(given, Mapping) else Constraints.read(given, domain)

    def _workload(self, domain: Domain) -> Workload:
        if self.target is not None and not isinstance(self.marginals, int):
            raise ValueError(f"target ({shown(self.target)}) must come with marginals that are a number")
        if isinstance(self.marginals, Workload):
            return self.marginals
        if isinstance(self.marginals, list | tuple):
            return Workload(domain, self.marginals)
        order = check_integer("marginals", self.marginals, 1, 6)
        return Workload.all(domain, k=min(order, len(domain)), target=self.target)

    def _table(
        self,
        name: str,
        given: Any,
        domain: Domain,
        *,
        private: bool,
        on_note: Callable[[str], None] | None = None,
    ) -> Table | Records:
        if isinstance(given, Records):
            if private and self.unit is not None:
                raise ValueError(f"unit ({shown(self.unit)}) must be given where the table is made")
            return given
        capped = {"unit": self.unit, "at_most": self.at_most} if private else {"missing_ok": True}
        if given is None:
            raise TypeError(f"{name} (None) must be a frame, the path of a file or a Table")
        if isinstance(given, str | os.PathLike):
            return read_table(given, domain, private=private, on_note=on_note, **capped)
        return Table.from_frame(given, domain, private=private, on_note=on_note, **capped)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "release_")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags  # asked for by scikit-learn alone

        inputs = InputTags(string=True, categorical=True, allow_nan=True)
        return Tags(estimator_type=None, target_tags=TargetTags(required=False), input_tags=inputs)

    def __repr__(self) -> str:
        defaults = _defaults()
        changed = (
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if value is not defaults[name] and not _same(value, defaults[name])
        )
        return f"Synthesizer({', '.join(changed)})"


def _same_table(private: Any, public: Any) -> bool:
    """Whether the private table is given as the public one: the same object, or a copy of its file."""
    paths = isinstance(private, str | os.PathLike) and isinstance(public, str | os.PathLike)
    return private is public or (paths and same_contents(os.fsdecode(private), os.fsdecode(public)))


def _same(value: object, default: object) -> bool:
    return type(value) is type(default) and value == default


def _defaults() -> dict[str, Any]:
    """The parameters of a Synthesizer, with their defaults."""
    parameters = inspect.signature(Synthesizer.__init__).parameters
    return {name: p.default for name, p in parameters.items() if name != "self"}
