"""A made-up census: which attributes its people have, and how each depends on those before it.

Tables only, all invented; `privmw.extensions.population` draws from them.

An attribute's labels (or bins) have odds, one row for each value of the attribute it is `given`. `tilts` make
later labels likelier: the odds of label j are multiplied by t^j, where t is a product over the attributes
named: of the entry at the attribute's value, or of a ratio to the power of the value's code. A tilt of 0
leaves the first label only. `drift` is the tilt of another time and place: t is multiplied by it in a
population that is shifted by 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Tilts = Mapping[str, float | Sequence[float]]


@dataclass(frozen=True)
class Node:
    """One attribute: its declaration in the domain and its odds."""

    name: str
    declared: Any
    odds: Sequence[Any]
    given: str | None = None
    tilts: Tilts = field(default_factory=dict)
    drift: float = 1.0


# fmt: off
CHILD = [1, 0, 0, 0, 0, 0]

PEOPLE = [
    Node("age", {"edges": [0, 5, 16, 18, 25, 35, 45, 55, 65, 75, 100]},
         [7, 15, 3, 10, 15, 14, 12, 11, 8, 5], drift=1.12),
    Node("sex", ["F", "M"], [100, 103], tilts={"age": [1, 1, 1, 1, 1, 1, 0.98, 0.95, 0.88, 0.72]}),
    Node("region", ["north", "east", "south", "west", "capital"], [24, 20, 26, 18, 12], drift=1.15),
    Node("born", ["in the region", "elsewhere in the country", "abroad"],
         [[76, 18, 6], [72, 20, 8], [70, 19, 11], [62, 26, 12], [44, 30, 26]], given="region",
         tilts={"age": [0.4, 0.5, 0.6, 0.8, 1.1, 1.2, 1.15, 1.05, 1, 1]}, drift=1.1),
    Node("language", ["national", "national and another", "another"],
         [[96, 3.5, 0.5], [93, 6, 1], [30, 45, 25]], given="born",
         tilts={"region": [1, 1, 1.2, 1, 1.2]}),
    Node("education", ["none", "primary", "secondary", "vocational", "bachelor", "higher"],
         [CHILD, [35, 60, 5, 0, 0, 0], [1, 28, 71, 0, 0, 0], [1, 5, 62, 14, 17, 1], [1, 5, 32, 22, 26, 14],
          [1, 7, 34, 22, 22, 14], [2, 9, 38, 22, 18, 11], [2, 13, 40, 20, 15, 10], [4, 20, 40, 17, 11, 8],
          [7, 30, 38, 13, 7, 5]], given="age",
         tilts={"region": [1, 0.97, 0.95, 1, 1.25], "born": [1, 1.1, 0.95], "sex": [1.03, 0.97]}, drift=1.1),
    Node("marital status", ["never married", "married", "divorced", "widowed"],
         [[1, 0, 0, 0], [1, 0, 0, 0], [199, 1, 0, 0], [85, 14, 1, 0], [48, 47, 5, 0], [24, 65, 10, 1],
          [15, 67, 16, 2], [9, 68, 18, 5], [6, 66, 14, 14], [5, 46, 8, 41]], given="age",
         tilts={"sex": [1.05, 0.93]}, drift=0.95),
    Node("household", ["one", "two", "three", "four", "five or more"],
         [[0, 6, 24, 40, 30], [0, 7, 22, 42, 29], [1, 9, 27, 38, 25], [14, 26, 26, 22, 12],
          [18, 28, 24, 20, 10], [14, 20, 22, 29, 15], [16, 28, 23, 22, 11], [22, 44, 19, 10, 5],
          [28, 56, 10, 4, 2], [45, 46, 6, 2, 1]], given="age",
         tilts={"marital status": [0.95, 1.35, 0.8, 0.6], "region": [1, 1, 1.05, 1, 0.88]}, drift=0.94),
    Node("tenure", ["owned", "mortgaged", "rented", "rent free"],
         [[20, 42, 36, 2], [16, 36, 45, 3], [22, 46, 30, 2], [22, 46, 30, 2], [24, 42, 31, 3]],
         given="household",
         tilts={"age": [1, 1, 0.95, 1.3, 1.25, 1, 0.85, 0.7, 0.55, 0.5],
                "region": [0.95, 1, 0.95, 1.05, 1.3], "marital status": [1.05, 0.85, 1.2, 0.95]}, drift=1.06),
    Node("employment",
         ["under 16", "employed", "self-employed", "unemployed", "not in the labour force", "retired"],
         [CHILD, CHILD, [0, 16, 0.5, 6, 77, 0], [0, 55, 2, 9, 34, 0], [0, 74, 6, 5, 15, 0],
          [0, 74, 9, 4, 13, 0], [0, 71, 11, 4, 13, 1], [0, 58, 11, 3, 14, 14], [0, 12, 5, 1, 6, 76],
          [0, 2, 1, 0, 5, 92]], given="age",
         tilts={"education": [1.4, 1.2, 1.05, 1, 0.9, 0.86], "sex": [1.08, 0.92]}, drift=0.98),
    Node("occupation",
         ["none", "farming", "building", "production", "service", "office", "professional", "management"],
         [[1, 0, 0, 0, 0, 0, 0, 0], [0, 3, 7, 17, 20, 24, 21, 8], [0, 9, 18, 10, 15, 14, 20, 14],
          [30, 3, 9, 16, 20, 14, 6, 2], [1, 0, 0, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0, 0]],
         given="employment",
         tilts={"education": [0.6, 0.65, 0.85, 0.95, 1.4, 1.7], "sex": [1.12, 0.88]}, drift=1.03),
    Node("hours", {"edges": [0, 1, 20, 35, 41, 50, 100]},
         [CHILD, [0, 8, 17, 53, 14, 8], [0, 14, 20, 24, 20, 22], CHILD, CHILD, CHILD], given="employment",
         tilts={"sex": [0.87, 1.2], "age": [1, 1, 0.4, 0.75, 1, 1.05, 1.05, 1, 0.7, 0.55],
                "occupation": [1, 1.2, 1.1, 1, 0.85, 0.95, 1.1, 1.3]}, drift=0.96),
    Node("income",
         {"edges": [0, 1, 10_000, 20_000, 30_000, 45_000, 60_000, 80_000, 120_000, 200_000, 1_000_000]},
         [[1, 0, 0, 0, 0, 0, 0, 0, 0, 0], [0, 14, 18, 19, 22, 12, 8, 5, 1.5, 0.5],
          [1, 18, 16, 15, 17, 12, 9, 7, 4, 1], [38, 38, 16, 6, 2, 0, 0, 0, 0, 0],
          [52, 32, 10, 4, 2, 0, 0, 0, 0, 0], [6, 22, 34, 19, 11, 5, 2, 1, 0, 0]], given="employment",
         tilts={"education": [0.75, 0.82, 0.95, 1.05, 1.25, 1.4], "hours": [1, 0.62, 0.85, 1.08, 1.25, 1.32],
                "age": [1, 1, 0.5, 0.75, 0.97, 1.08, 1.12, 1.1, 1, 0.95],
                "occupation": [1, 0.85, 0.98, 0.95, 0.85, 0.98, 1.12, 1.25]}, drift=1.08),
    Node("commute", ["none", "at home", "on foot or by bicycle", "public transport", "car"],
         [[1, 0, 0, 0, 0], [0, 7, 9, 16, 68], [0, 30, 8, 6, 56], [1, 0, 0, 0, 0], [1, 0, 0, 0, 0],
          [1, 0, 0, 0, 0]], given="employment",
         tilts={"region": [1.1, 1, 1, 1, 0.55], "education": [1.1, 1.1, 1.1, 1.05, 0.85, 0.8]}, drift=0.92),
]


def _few(name: str, share: float, tilts: Tilts, drift: float = 1.0) -> Node:
    """A yes that few have: its share in a hundred, before tilts."""
    return Node(name, ["no", "yes"], [100 - share, share], None, tilts, drift)


ADULT = [0, 0, 0, 1, 1, 1, 1, 1, 1, 1]  # by age
AGED = [0.2, 0.4, 0.4, 0.5, 0.6, 1, 2, 4, 7, 14]
WORKING = [0, 1, 1, 0, 0, 0]  # by employment
POOR = [1, 3, 2.5, 1.8, 1.2, 0.7, 0.4, 0.25, 0.15, 0.1]  # by income
RICH = [0.2, 0.4, 0.6, 0.8, 1, 1.4, 1.9, 2.6, 3.5, 5]

DETAILS = [
    _few("hearing difficulty", 2, {"age": AGED}),
    _few("vision difficulty", 1.5, {"age": AGED, "hearing difficulty": [0.8, 4]}),
    _few("walking difficulty", 2.5, {"age": AGED, "vision difficulty": [0.9, 3]}),
    _few("memory difficulty", 3, {"walking difficulty": [0.7, 6], "age": 1.05}),
    _few("self-care difficulty", 0.5, {"walking difficulty": [0.5, 30], "memory difficulty": [0.7, 5]}),
    _few("needs help", 0.8, {"age": ADULT, "self-care difficulty": [0.7, 40]}),
    _few("disability pension", 1, {"age": ADULT, "walking difficulty": [0.6, 8],
                                   "memory difficulty": [0.8, 4]}),
    _few("insured by employer", 45, {"income": [0.5, 0.5, 0.7, 0.9, 1.2, 1.6, 2, 2.4, 2.8, 3]}),
    _few("insured by purchase", 12, {"insured by employer": [1.6, 0.3], "age": AGED}),
    _few("insured by the state", 25,
         {"insured by employer": [2.2, 0.25], "age": [1, 1, 1, 0.6, 0.5, 0.5, 0.6, 1, 12, 20]}, drift=1.1),
    _few("insured by the army", 2, {"age": AGED}),
    _few("uninsured", 40, {"insured by employer": [1, 0], "insured by the state": [1, 0],
                           "insured by purchase": [1, 0], "insured by the army": [1, 0]}),
    _few("food aid", 8, {"income": POOR, "household": 1.15, "tenure": 1.3}),
    _few("cash aid", 2, {"age": ADULT, "food aid": [0.5, 6]}),
    _few("housing aid", 4, {"tenure": [0.05, 0.1, 2, 0.5], "food aid": [0.6, 4]}),
    _few("heating aid", 5, {"food aid": [0.6, 5], "region": [1.5, 1.1, 0.6, 0.9, 0.6]}),
    _few("unemployment benefit", 4, {"employment": [0, 0.3, 0.1, 8, 0.2, 0]}),
    _few("pension", 6, {"employment": [0, 0.1, 0.2, 0.3, 0.6, 14]}),
    _few("social security", 8, {"employment": [0.1, 0.1, 0.3, 0.3, 1.5, 40]}),
    _few("interest income", 10, {"age": ADULT, "income": RICH}),
    _few("rental income", 4, {"interest income": [0.6, 5], "tenure": [1.5, 1, 0.3, 0.3]}),
    _few("business income", 2, {"employment": [0, 0.5, 25, 0.3, 0.2, 0.2]}),
    _few("veteran", 6, {"sex": [0.12, 1.5], "age": [0, 0, 0, 0.2, 0.5, 0.7, 0.9, 1.2, 2.5, 4],
                        "insured by the army": [0.8, 12]}),
    _few("injured in service", 15, {"veteran": [0, 1], "walking difficulty": [0.8, 3]}),
    _few("on active duty", 0.6, {"employment": [0, 1, 0, 0, 0, 0], "insured by the army": [0.4, 15],
                                 "age": [0, 0, 0, 4, 3, 1.5, 0.4, 0, 0, 0]}),
    Node("citizen", ["by birth", "naturalised", "no"], [[1, 0, 0], [1, 0, 0], [6, 48, 46]], given="born",
         tilts={"age": [1.6, 1.5, 1.4, 1.3, 1.2, 1, 0.9, 0.8, 0.7, 0.6]}),
    Node("arrived", ["never", "long ago", "before", "lately"],
         [[1, 0, 0, 0], [1, 0, 0, 0], [0, 45, 35, 20]], given="born",
         tilts={"age": [3, 1.6, 1.4, 1.4, 1.2, 1, 0.8, 0.6, 0.4, 0.3]}, drift=1.1),
    Node("speaks well", ["yes", "fairly", "little", "no"], [[1, 0, 0, 0], [80, 15, 4, 1], [20, 30, 30, 20]],
         given="language", tilts={"arrived": [0.6, 0.8, 1, 1.5]}),
    Node("moved last year", ["no", "nearby", "far"], [88, 10, 2], None,
         {"age": [1.1, 0.9, 0.9, 2, 2, 1.1, 0.8, 0.6, 0.4, 0.4], "tenure": [0.5, 0.7, 1.7, 1.5]}),
    _few("gave birth", 5, {"sex": [1, 0], "age": [0, 0, 0.1, 1, 2, 1, 0.05, 0, 0, 0],
                           "marital status": [0.5, 1.6, 0.5, 0.3], "household": [0, 1, 1, 1, 1]}),
    _few("young children", 15, {"age": [5, 0.8, 0.5, 0.6, 1.8, 1.5, 0.4, 0.2, 0.1, 0.05],
                                "household": [0, 0.2, 1, 1.3, 1.6], "gave birth": [0.95, 30]}),
    _few("grandchildren at home", 3, {"age": [0, 0, 0, 0, 0.1, 0.6, 1.6, 2.2, 2, 1.5],
                                      "household": [0, 0.4, 1.4, 2.2, 4]}),
    _few("raises grandchildren", 40, {"grandchildren at home": [0, 1], "age": 0.9}),
    _few("three generations", 4, {"household": [0, 0, 0.8, 1.8, 4], "grandchildren at home": [0.6, 20]}),
    _few("married last year", 5, {"marital status": [0, 1, 0, 0],
                                  "age": [0, 0, 3, 6, 3, 1, 0.5, 0.3, 0.2, 0.1]}),
    _few("divorced last year", 8, {"marital status": [0, 0, 1, 0], "age": 0.85}),
    Node("times married", ["at most once", "twice", "more"], [80, 20, 5], None,
         {"marital status": [0, 0.9, 1.1, 0.7], "age": [0, 0, 0.1, 0.2, 0.5, 0.8, 1.1, 1.2, 1.1, 0.9]}),
    _few("at school", 8, {"age": [1.2, 200, 90, 9, 1.4, 0.6, 0.4, 0.2, 0.05, 0.02],
                          "employment": [1, 0.6, 0.4, 0.8, 2.5, 0.3]}),
    _few("private school", 12, {"at school": [0, 1], "region": [1, 0.9, 0.8, 1, 1.6]}),
    _few("science degree", 30, {"education": [0, 0, 0, 0, 1, 1.2], "sex": [0.7, 1.4]}),
    _few("second degree", 10, {"education": [0, 0, 0, 0, 0.8, 2], "science degree": [0.9, 1.3]}),
    Node("works for", ["a firm or no employer", "the state", "a charity"], [70, 18, 12], None,
         {"employment": [0, 1, 0, 0, 0, 0], "occupation": [1, 0.5, 0.5, 0.6, 0.9, 0.9, 1.6, 0.9]}),
    _few("looking for work", 2, {"employment": [0, 0.3, 0.3, 60, 0.8, 0.05]}),
    _few("absent last week", 3, {"employment": WORKING, "gave birth": [0.9, 6]}),
    Node("part of the year", ["no", "half", "quarter"], [82, 13, 5], None,
         {"employment": WORKING, "hours": [1, 2, 1.3, 0.7, 0.6, 0.6],
          "age": [1, 1, 3, 1.8, 1, 0.8, 0.8, 0.8, 1.2, 1.4]}),
    _few("car pool", 12, {"commute": [0, 0, 0, 0, 1], "household": 1.1}),
    Node("leaves early", ["no", "before seven", "before five"], [65, 25, 10], None,
         {"commute": [0, 0, 1, 1, 1], "occupation": [1, 1.6, 1.8, 1.5, 0.9, 0.7, 0.7, 0.7]}),
    Node("travel time", ["short", "half an hour", "an hour"], [55, 30, 15], None,
         {"commute": [0, 0, 0.5, 2, 1], "region": [0.8, 0.9, 1, 1, 1.6]}),
    _few("second job", 5, {"employment": WORKING, "hours": [1, 1.4, 1.2, 0.9, 1, 1.1]}),
    Node("vehicles", ["none", "one", "two", "more"], [15, 30, 35, 20], None,
         {"household": [0.5, 0.8, 1, 1.1, 1.15], "region": [1.1, 1.05, 1, 1, 0.6], "income": 1.03}),
    Node("internet", ["fast", "slow", "none"], [90, 7, 3], None,
         {"age": [0.8, 0.8, 0.7, 0.7, 0.7, 0.8, 0.9, 1.2, 1.6, 2.3], "income": 0.92}, drift=0.85),
    Node("building", ["house", "row", "flats"], [66, 14, 20], None,
         {"tenure": [0.3, 0.5, 2, 1.2], "region": [0.9, 1, 0.9, 1, 1.7]}),
    _few("crowded", 4, {"household": [0, 0.1, 0.5, 1, 4], "tenure": [0.5, 0.6, 2, 1.5],
                        "born": [0.8, 0.9, 2.5]}),
]
# fmt: on
