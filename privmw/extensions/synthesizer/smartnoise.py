"""smartnoise-synth: our `Synthesizer` in its shape, made by `Synthesizer.create("privmw", ...)`.

Importing this file registers the name. Its transformers learn categories and bounds from the private frame,
some of them without paying; here the domain is declared, or proposed from a public frame, and all of epsilon
goes into the release.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas
from snsynth.base import Synthesizer as _Base
from snsynth.base import synth_map

from privmw.data.domain import Domain
from privmw.extensions.synthesizer.synthesizer import Synthesizer
from privmw.release import Release
from privmw.secrecy import expect, shown


class PrivmwSynthesizer(_Base):  # type: ignore[misc]  # snsynth is untyped
    """A synthesizer of smartnoise-synth: `fit`, `sample`, `fit_sample`, `sample_conditional`.

    epsilon and every option of `pmw.Synthesizer`, such as domain, delta, marginals, algorithm and account.
    public: a public frame, if there is one. Data are pandas frames, or arrays and lists of tuples with the
    columns of the domain (or of the public frame) in order, and samples are of the same kind.

    >>> import snsynth
    >>> domain = {"sex": ["F", "M"], "rooms": [1, 2, 3]}
    >>> synthesizer = snsynth.Synthesizer.create("privmw", epsilon=1.0, domain=domain, marginals=2)
    >>> len(synthesizer.fit_sample([("F", 2), ("M", 3)] * 500))
    1000
    """

    def __init__(self, epsilon: Any = 1.0, *, public: Any = None, **options: Any) -> None:
        self.epsilon = epsilon
        self.public = public
        self._synthesizer = Synthesizer(epsilon=epsilon, **options)
        self._kind: type = pandas.DataFrame

    @property
    def release_(self) -> Release:
        """The release that a fit made, with its ledger."""
        return self._synthesizer.release_

    def fit(
        self,
        data: Any,
        *ignore: Any,
        transformer: Any = None,
        categorical_columns: Sequence[Any] = (),
        ordinal_columns: Sequence[Any] = (),
        continuous_columns: Sequence[Any] = (),
        preprocessor_eps: float = 0.0,
        nullable: bool = False,
    ) -> None:
        """Make a release of private data and spend epsilon on it, at every call.

        The hints of smartnoise's transformers have no use here, since the domain says what a column is: a
        transformer or an epsilon for one is refused, and names of columns are not needed.
        """
        if transformer is not None:
            raise ValueError("transformer must be None: the domain says how columns are read")
        if preprocessor_eps:
            raise ValueError(
                f"preprocessor_eps ({shown(preprocessor_eps)}) must be 0: nothing is learned beforehand"
            )
        expect(
            "data",
            data,
            pandas.DataFrame | np.ndarray | list,
            "a pandas frame, an array or a list of tuples",
            quote=False,
        )
        kind = type(data)
        if kind is not pandas.DataFrame:
            names = self._names()
            if any(len(row) != len(names) for row in data[:1]):
                raise ValueError(f"data (of other columns) must have the {len(names)} columns of the domain")
            data = pandas.DataFrame(list(data), columns=names)
        self._synthesizer.fit(data, public=self.public)
        self._kind = kind

    def sample(self, n_rows: int) -> Any:
        """Return synthetic records in the kind of data that was fitted."""
        frame = self._synthesizer.sample(n_rows)
        if self._kind is pandas.DataFrame:
            return frame
        return (
            frame.to_numpy() if self._kind is np.ndarray else list(frame.itertuples(index=False, name=None))
        )

    def _names(self) -> list[str]:
        domain = self._synthesizer.domain
        if domain is not None:
            return list((domain if isinstance(domain, Domain) else Domain.read(domain)).names)
        if not isinstance(self.public, pandas.DataFrame):
            raise ValueError(f"domain ({shown(domain)}) must be given with data that name no columns")
        return [str(name) for name in self.public.columns]


synth_map["privmw"] = {"class": f"{__name__}.{PrivmwSynthesizer.__name__}"}
