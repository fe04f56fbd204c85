"""The fitted counts of a fit as rows of a file, beside the noisy ones: columns of privmw/release/cells.py."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from privmw.data.workload import Queries, find_queries
from privmw.extensions.postprocess.fit import Fit
from privmw.io.files import SEEDED
from privmw.release.cells import table_maker, write_cells


def write_fitted(
    fit: Fit, path: str | os.PathLike[str], *, for_release: bool = True, raw: bool = False
) -> None:
    """Write the fitted and the noisy count of every cell of the marginals measured.

    Columns as above, and noisy_count and standard_deviation, empty for a cell that was not measured, and
    fitted, all in counts. The file is .parquet, .csv or .feather; for_release=False marks it as made from
    seeded noise; raw: see `Table.write`.

    >>> from privmw.extensions.postprocess.fitted_file import write_fitted
    >>> write_fitted(fit, "fitted.parquet")  # doctest: +SKIP
    """
    import pyarrow as pa

    measured, fitted = fit.measured, fit.fitted_counts()
    absent, deviations = np.isinf(measured.variances), np.sqrt(measured.variances)
    attributes = np.array([place for places in measured.places for place in places], np.int32)
    starts = np.cumsum([0, *map(len, measured.places)], dtype=np.int64)
    offsets = np.array(measured.offsets, np.int64)

    def queries(part: slice) -> Queries:
        cells = np.arange(len(fitted))[part]
        return find_queries(fit.domain, attributes, starts, offsets, cells)

    def columns(part: slice) -> dict[str, Any]:
        return {
            "noisy_count": pa.array(measured.noisy_counts[part], mask=absent[part]),
            "fitted": fitted[part],
            "standard_deviation": pa.array(deviations[part], mask=absent[part]),
        }

    about: dict[str, Any] = {"method": fit.certificate.method, "domain": fit.domain.fingerprint()}
    about |= {} if for_release else SEEDED
    orders = np.diff(starts)
    table = table_maker(fit.domain, attributes, int(orders.max()), queries, columns, about)
    write_cells(path, table, len(fitted), for_release=for_release, raw=raw)
