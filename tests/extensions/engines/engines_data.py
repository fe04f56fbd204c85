"""A small table with everything that an encoding must get right, as an Arrow table."""

import datetime

import numpy as np

import privmw as pmw

DOMAIN = pmw.Domain(
    {
        "a ge": {"edges": [0, 18, 65.5, 120], "other": "o", "missing": "m"},
        's"e`x': ["F'", "M\\", "ü\n"],
        "rooms": {"labels": [3, 5, -7], "other": -1},
        "code": 4,
        "born": {"edges": ["2020-01-01", "2020-06-01", "2021-01-01"], "missing": "none"},
        "works": ["true", "false"],
        "share": {"edges": [0, 0.3, 0.7, 1], "missing": -1},
        "word": {"labels": ["a", "b", ""], "other": "else"},
    }
)
WORKLOAD = pmw.Workload.all(DOMAIN, k=[1, 2, 3])


def values(n=400, seed=0):
    """Columns of values; "share" is of 32 bits, where 0.7 lies below the edge 0.7."""
    rng = np.random.default_rng(seed)
    days = [datetime.date(2020, m, d) for m, d in ((1, 1), (5, 31), (6, 1))] + [
        datetime.date(2021, 1, 1),
        None,
    ]
    return {
        "a ge": rng.choice([0, 17.99, 18, 65.5, 120, 121, -1, np.nan, np.inf], n),
        's"e`x': rng.choice(["F'", "M\\", "ü\n"], n).tolist(),
        "rooms": [[3, 5, -7, -1, 99, None][i] for i in rng.integers(0, 6, n)],
        "code": rng.integers(0, 4, n),
        "born": [days[i] for i in rng.integers(0, len(days), n)],
        "works": rng.choice([True, False], n),
        "share": rng.choice(np.array([0, 0.3, 0.7, 1, 0.5, np.nan, -1], np.float32), n),
        "word": [["a", "b", "", "B", "x", None][i] for i in rng.integers(0, 6, n)],
        "home": rng.integers(0, n // 5, n),
        "ignored": rng.choice(["x", "y"], n).tolist(),
    }


def frame(**changed):
    """The values as an Arrow table."""
    import pyarrow as pa

    columns = {**values(), **changed}
    return pa.table({name: pa.array(column) for name, column in columns.items()})
