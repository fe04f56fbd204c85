"""Made-up people for demonstrations and tests: a seeded census, also of another time and place.

Draws records from the tables of `census`, one attribute after the other. None of these people exist, so
nothing here is private, and it knows no mechanism. Probabilities are multiples of 2^-32 and the random
words are PCG64's own, so that the same seed gives the same people on every machine. The first rows and
attributes of a larger draw are those of a smaller one.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from privmw.data.domain import Domain
from privmw.data.table import Table
from privmw.extensions.population.census import DETAILS, PEOPLE, Node
from privmw.kernels.arrays import Array, freeze
from privmw.kernels.checks import check_integer, check_number

NODES = {node.name: node for node in (*PEOPLE, *DETAILS)}

UInt8s = npt.NDArray[np.uint8]


def population_domain(attributes: int = len(PEOPLE)) -> Domain:
    """The domain of the made-up people: their first attributes, 14 that read well, or up to 67.

    >>> population_domain(3)
    Domain(age: 10, sex: 2, region: 5)
    """
    nodes = list(NODES.values())[: check_integer("attributes", attributes, 1, len(NODES))]
    return Domain({node.name: node.declared for node in nodes})


def draw_population(
    n: int, *, attributes: int = len(PEOPLE), shift: float = 0.0, seed: int = 0, private: bool = False
) -> Table:
    """The codes of n made-up people. `shift` from 0 to 1 makes them older, better paid, in other regions.

    >>> draw_population(1_000, attributes=2, seed=1).codes()[:3].tolist()
    [[5, 0], [9, 0], [1, 0]]
    """
    domain = population_domain(attributes)
    columns = _draw(domain, n, shift, seed)
    return Table({name: freeze(codes) for name, codes in columns.items()}, domain, private=private)


def draw_values(
    n: int, *, attributes: int = len(PEOPLE), shift: float = 0.0, seed: int = 0
) -> dict[str, Array]:
    """The same people as values of a file: labels, and integers for attributes with bins.

    >>> values = draw_values(1_000, attributes=2, seed=1)
    >>> values["age"][:3].tolist(), values["sex"][:3].tolist()
    ([38, 90, 10], ['F', 'F', 'F'])
    """
    domain = population_domain(attributes)
    columns = _draw(domain, n, shift, seed)
    return {name: _values(domain, name, codes, seed) for name, codes in columns.items()}


def _draw(domain: Domain, n: int, shift: float, seed: int) -> dict[str, UInt8s]:
    n = check_integer("n", n, 1, 2**40)
    if not 0 <= check_number("shift", shift) <= 1:
        raise ValueError(f"shift ({shift}) must be from 0 to 1")
    columns: dict[str, UInt8s] = {}
    for position, name in enumerate(domain.names):
        node = NODES[name]
        row = np.zeros(n, np.intp)
        for parent in _parents(node):
            row *= domain[parent].size
            row += columns[parent]
        words = _words(seed, 2 * position, n)
        codes = np.zeros(n, np.uint8)
        for ends in _ends(domain, node, float(shift)).T:
            codes += words >= ends[row]
        columns[name] = codes
    return columns


def _values(domain: Domain, name: str, codes: UInt8s, seed: int) -> Array:
    attribute = domain[name]
    if attribute.edges is None:
        labels: Array = np.array(attribute.labels, object)
        return labels[codes]
    edges = np.array(attribute.edges, np.uint64)
    widths = np.diff(edges)
    words = _words(seed, 2 * domain.index(name) + 1, len(codes))
    numbers: npt.NDArray[np.int64] = (edges[codes] + (words * widths[codes] >> np.uint64(32))).astype(
        np.int64
    )
    return numbers


def _parents(node: Node) -> list[str]:
    return [*([] if node.given is None else [node.given]), *node.tilts]


def _ends(domain: Domain, node: Node, shift: float) -> npt.NDArray[np.uint64]:
    """The end of each label but the last on [0, 2^32): a row for each combination of the parents' values.

    Computed in a fixed order, without powers or logarithms, whose last bits differ between machines.
    """
    parents = _parents(node)
    sizes = [domain[parent].size for parent in parents]
    tilt = np.full(sizes, 1 + shift * (node.drift - 1))
    for parent, by_value in node.tilts.items():
        axis = parents.index(parent)
        if isinstance(by_value, int | float):
            by_value = np.cumprod([1.0] + [by_value] * (sizes[axis] - 1)).tolist()
        tilt *= np.reshape(by_value, [sizes[axis] if a == axis else 1 for a in range(len(sizes))])
    odds = np.array(node.odds, np.float64)
    if node.given is not None:
        odds = odds.reshape([sizes[0], *[1] * (len(sizes) - 1), -1])
    powers = np.repeat(tilt[..., np.newaxis], domain[node.name].size, -1)
    powers[..., 0] = 1
    chances = np.cumsum(odds * np.cumprod(powers, -1), -1)
    ends = chances[..., :-1] / chances[..., -1:] * 2.0**32
    return ends.reshape(math.prod(sizes), -1).astype(np.uint64)


def _words(seed: int, stream: int, n: int) -> npt.NDArray[np.uint64]:
    """N random integers from 0 to 2^32 - 1, of a stream for each attribute and use."""
    seeds = np.random.SeedSequence([check_integer("seed", seed, 0, 2**64 - 1), stream])
    words: npt.NDArray[np.uint64] = np.random.PCG64(seeds).random_raw(n) >> np.uint64(32)
    return words
