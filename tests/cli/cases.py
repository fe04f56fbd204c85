"""Files for the command line's tests: a small made-up pair, and the line that releases it."""

import pyarrow as pa
import pyarrow.parquet as parquet

from privmw.cli.refusal import EXIT_DISAGREES
from privmw.extensions.population import draw_values, population_domain

N = 400
ATTRIBUTES = 4
RELEASED = (0, EXIT_DISAGREES)  # without a seed a good release may lie off its noisy counts by chance
FILES = {
    "answers.parquet",
    "domain.json",
    "measurements.parquet",
    "privacy.json",
    "quality.json",
    "release.npz",
    "public-values.parquet",
    "report.html",
    "synthetic.parquet",
}


def write_pair(folder, n=N, attributes=ATTRIBUTES):
    """public.parquet, private.parquet and domain.json."""
    population_domain(attributes).write(folder / "domain.json")
    for name, shift in (("public", 0.0), ("private", 1.0)):
        values = draw_values(n, attributes=attributes, shift=shift, seed=len(name))
        parquet.write_table(pa.table(values), folder / f"{name}.parquet")


def release_line(**options):
    """The words of a release in the current folder.

    An option of None is left out, one of True is a flag, and a list gives the option several times.
    """
    words = ["release"]
    given = {
        "private": "private.parquet",
        "public": "public.parquet",
        "domain": "domain.json",
        "marginals": "2",
        "epsilon": "1",
        "output": "out",
        **options,
    }
    for name, value in given.items():
        for one in value if isinstance(value, list) else [value]:
            if one is not None:
                words += [f"--{name.replace('_', '-')}", *([] if one is True else [str(one)])]
    return words


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())
