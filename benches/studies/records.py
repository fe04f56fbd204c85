"""What people can do with the records: NIST's scoreboard, classifiers trained on them, rules that they break.

python benches/study.py records nist      # k-marginal score, pMSE, records whose age contradicts the rest
python benches/study.py records adult     # area under the curve of a classifier trained on the records
python benches/study.py records survey    # records of ND from SD that break a rule of real records
python benches/study.py records types     # columns of 14 kinds, written and read back
python benches/study.py records harm      # k-marginal scores of releases and of public tables, five sets
python benches/study.py records schema    # values and nulls that no public record has, in a million records

Each release is written twice: with values of bins drawn column by column, and from one public record.
--sdnist names the python of an environment with `pip install sdnist` (2.4), --dpmm one with dpmm (0.1.9).
NOT PRIVATE.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from itertools import permutations, product
from pathlib import Path

import numpy as np
import pandas
import record_boards
import record_types

import privmw as pmw
from privmw.extensions.rules import propose_rules, written

Rule = Callable[[pandas.DataFrame], np.ndarray]
DATA = Path(os.environ.get("PRIVMW_DATA", "data"))
DEMOGRAPHIC = [
    "AGEP",
    "SEX",
    "MSP",
    "RAC1P",
    "HOUSING_TYPE",
    "OWN_RENT",
    "EDU",
    "PINCP_DECILE",
    "DVET",
    "DEYE",
]
SURVEY = [
    "AGEP",
    "SEX",
    "MAR",
    "RELP",
    "SCHL",
    "SCH",
    "ESR",
    "COW",
    "WKHP",
    "WKW",
    "WAGP",
    "PINCP",
    "POVPIP",
    "MIL",
    "HINS4",
]
SCORE = """
import json, sys
from pathlib import Path
from sdnist.report.dataset import Dataset, TestDatasetName  # first: the other two import it in a circle
from sdnist.metrics.kmarginal import KMarginal
from sdnist.metrics.propensity import PropensityMSE

class Log:
    def msg(self, *_, **__): pass
    def end_msg(self, *_, **__): pass

path, root, folder = map(Path, sys.argv[1:])
data = Dataset(path, Log(), TestDatasetName.national2019, data_root=root, download=False)
kmarginal = KMarginal(data.d_target_data, data.d_synthetic_data, None)
kmarginal.compute_score()
propensity = PropensityMSE(data.t_target_data, data.t_synthetic_data, folder, list(data.features))
propensity.compute_score()
print(json.dumps([float(kmarginal.score), float(propensity.score), len(data.features)]))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=("nist", "adult", "survey", "types", "harm", "schema"))
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--sdnist", default="/opt/sdnist/bin/python")
    parser.add_argument("--no-public", action="store_true", help="nist and adult: the domain alone")
    parser.add_argument("--bins", type=int, default=10, help="nist and adult: of a number")
    parser.add_argument("--dpmm", help="adult --no-public: AIM and MST too")
    parser.add_argument("--target", metavar="NAME", help="adult: also releases for this target, income")
    options = parser.parse_args()
    studies: dict[str, Callable[[argparse.Namespace], None]] = {
        "nist": nist,
        "adult": adult,
        "survey": survey,
        "types": lambda _: record_types.show(),
        "harm": lambda _: record_boards.harm(sets(), release, options.epsilons, options.seeds),
        "schema": lambda _: record_boards.schema(sets(), release),
    }
    studies[options.what](options)


def sets() -> dict[str, tuple[pandas.DataFrame, pandas.DataFrame]]:
    """Private and public records: near and far in time and place, and a random tenth."""

    def states(private: str, public: str) -> tuple[pandas.DataFrame, pandas.DataFrame]:
        one, other = (
            pandas.read_parquet(DATA / f"acs_pums/acs{name}.parquet")[SURVEY] for name in (private, public)
        )
        return one, other

    public, private, _ = split_adult(0)
    return {
        "NIST national 2019 from 2018": (national(2019), national(2018)),
        "ADULT, a random tenth": (private, public),
        "ND-18 from SD-18, 15 columns": states("2018_nd", "2018_sd"),
        "HI-18 from HI-15, 15 columns": states("2018_hi", "2015_hi"),
        "NE-18 from WY-18, 15 columns": states("2018_ne", "2018_wy"),
    }


def drawings(
    synthesizer: pmw.Synthesizer, seed: int, public: pandas.DataFrame | None
) -> dict[str, pandas.DataFrame]:
    """The records of one release with their values drawn in each way."""
    joint = synthesizer.sample(seed=seed)
    if public is None:
        return {"spread": joint}
    return {"column by column": apart(joint, public, synthesizer.domain_, seed), "one record": joint}


def apart(
    records: pandas.DataFrame, public: pandas.DataFrame, domain: pmw.Domain, seed: int
) -> pandas.DataFrame:
    """The records with every value of a bin replaced by a random public one of the same bin."""
    rng = np.random.default_rng(seed)
    table = pmw.Table.from_frame(records, domain, private=False)
    known = pmw.Table.from_frame(public, domain, private=False)
    records = records.copy()
    for name in (a.name for a in domain.attributes if a.edges):
        values = records[name].to_numpy().copy()
        for code in np.unique(table.column(name)):
            own = public[name].to_numpy()[known.column(name) == code]
            if len(own):
                here = table.column(name) == code
                values[here] = rng.choice(own, int(here.sum()))
        records[name] = values
    return records


def release(
    private: pandas.DataFrame, public: pandas.DataFrame | None, epsilon: float, seed: int, **options: object
) -> pmw.Synthesizer:
    """A release with a seeded noise."""
    return pmw.Synthesizer(epsilon=epsilon, delta=1e-9, rng=seed, **options).fit(private, public=public)


def nist(options: argparse.Namespace) -> None:
    private, public = (national(year) for year in (2019, 2018))
    print(f"{'epsilon':>8} {'seed':>4} {'values':18} {'k-marginal':>10} {'pMSE':>8} {'inconsistent':>12}")
    show("public table", "", "", public, options)
    for epsilon in options.epsilons:
        for seed in options.seeds:
            if options.no_public:
                domain = pmw.Domain.from_public(public, bins=options.bins, other=None, missing=None)
                made = release(private, None, epsilon, seed, domain=domain)
            else:
                domain = pmw.Domain.from_public(public, bins=options.bins)
                made = release(private, public, epsilon, seed, domain=domain)
            for name, records in drawings(made, seed, None if options.no_public else public).items():
                show(name, epsilon, seed, records, options)


def national(year: int) -> pandas.DataFrame:
    return pandas.read_parquet(DATA / f"acs_nist_excerpts/national{year}.parquet")[DEMOGRAPHIC]


def show(
    name: str, epsilon: object, seed: object, records: pandas.DataFrame, options: argparse.Namespace
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "records.csv")
        records.to_csv(path, index=False, na_rep="N")
        run = [options.sdnist, "-c", SCORE, str(path), str(DATA / "nist_board"), folder]
        ended = subprocess.run(run, capture_output=True, text=True, check=False)
        if ended.returncode:
            raise SystemExit(ended.stderr[-2000:])
        score, pmse, columns = json.loads(ended.stdout.splitlines()[-1])
    wrong = 100 * inconsistent(records).mean()
    lost = "" if columns >= len(DEMOGRAPHIC) else f" ({columns} columns scored)"
    print(f"{epsilon:>8} {seed:>4} {name:18} {score:10.1f} {pmse:8.4f} {wrong:10.2f} %{lost}", flush=True)


def inconsistent(records: pandas.DataFrame) -> pandas.Series:
    """Records of children that are married, have a degree, an income or have served."""
    age = records["AGEP"].astype(float)
    text = records.astype(str)
    child = (age < 15) & ((text["MSP"] != "N") | (text["PINCP_DECILE"] != "N"))
    toddler = (age < 3) & (text["EDU"] != "N")
    graduate = (age < 18) & text["EDU"].isin(["8", "9", "10", "11", "12"])
    elder = (age >= 15) & ((text["MSP"] == "N") | (text["PINCP_DECILE"] == "N"))
    soldier = (age < 17) & (text["DVET"] != "N")
    return child | toddler | graduate | elder | soldier


def adult(options: argparse.Namespace) -> None:
    print(f"{'epsilon':>8} {'seed':>4} {'trained on':18} {'AUC':>7}")
    for seed in options.seeds:
        public, private, test = split_adult(seed)
        print(f"{'':>8} {seed:>4} {'real records':18} {auc(private, test, seed):7.4f}")
        print(f"{'':>8} {seed:>4} {'public records':18} {auc(public, test, seed):7.4f}", flush=True)
        for epsilon in options.epsilons:
            domain = pmw.Domain.from_public(public, bins=options.bins)
            made = release(private, None if options.no_public else public, epsilon, seed, domain=domain)
            results = drawings(made, seed, None if options.no_public else public)
            if options.no_public and options.dpmm:
                results |= record_boards.peers(options.dpmm, private, domain, epsilon, seed)
            for name, records in results.items():
                print(f"{epsilon:>8} {seed:>4} {name:18} {auc(records, test, seed):7.4f}", flush=True)
            if options.target is not None:
                aimed = {"domain": made.domain_, "target": options.target}
                made = release(private, None if options.no_public else public, epsilon, seed, **aimed)
                score = auc(made.sample(seed=seed), test, seed)
                print(f"{epsilon:>8} {seed:>4} {'target ' + options.target:18} {score:7.4f}", flush=True)


def split_adult(seed: int) -> tuple[pandas.DataFrame, pandas.DataFrame, pandas.DataFrame]:
    """Public, private and test records: 3,855 of the 32,561 training records are public."""
    frame = pandas.read_parquet(DATA / "adult/adult_raw.parquet").drop(columns=["fnlwgt", "education-num"])
    train = frame[frame["split"] == "train"].drop(columns="split")
    test = frame[frame["split"] == "test"].drop(columns="split")
    chosen = np.random.default_rng(seed).random(len(train)) < 0.1184
    return train[chosen], train[~chosen], test


def auc(train: pandas.DataFrame, test: pandas.DataFrame, seed: int) -> float:
    """The area under the curve of gradient boosting, trained on records, on other real ones."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    def features(part: pandas.DataFrame) -> pandas.DataFrame:
        columns = {}
        for name in test.columns.drop("income"):
            if test[name].dtype.kind in "if":
                columns[name] = part[name].astype(float)
            else:
                places = {word: place for place, word in enumerate(sorted(test[name].astype(str).unique()))}
                columns[name] = part[name].astype(str).map(places).astype(float)
        return pandas.DataFrame(columns)

    words = [name for name in test.columns.drop("income") if test[name].dtype.kind not in "if"]
    model = HistGradientBoostingClassifier(categorical_features=words, random_state=seed)
    model.fit(features(train), train["income"].astype(str) == ">50K")
    return float(
        roc_auc_score(test["income"].astype(str) == ">50K", model.predict_proba(features(test))[:, 1])
    )


def survey(options: argparse.Namespace) -> None:
    private, public = (
        pandas.read_parquet(DATA / f"acs_pums/acs2018_{state}.parquet")[SURVEY] for state in ("nd", "sd")
    )
    real = pandas.concat([private, public])
    rules = broken_by_none(real)
    print(f"{len(rules)} rules that none of {len(real):,} real records breaks")
    print(f"{'epsilon':>8} {'seed':>4} {'values':18} {'records that break one':>22}")
    for epsilon in options.epsilons:
        for seed in options.seeds:
            made = release(private, public, epsilon, seed)
            proposed = propose_rules(public, made.domain_)
            accepted = json.loads(written(proposed))
            held = release(private, public, epsilon, seed, domain=made.domain_, constraints=accepted)
            ways = {**drawings(made, seed, public), "accepted rules": held.sample(seed=seed)}
            for name, records in ways.items():
                wrong = np.any([broken(records) for broken in rules.values()], axis=0)
                print(f"{epsilon:>8} {seed:>4} {name:18} {100 * wrong.mean():20.2f} %", flush=True)


def broken_by_none(real: pandas.DataFrame) -> dict[str, Rule]:
    """Conditions of age, of missing values and of amounts, which every real record meets."""
    rules: dict[str, Rule] = {}
    for one, other in permutations(SURVEY, 2):
        rules[f"{one} where {other} is missing"] = partial(where_missing, one, other)
    for name, least in product(SURVEY, (3, 5, 14, 15, 16, 17)):
        rules[f"{name} below the age of {least}"] = partial(below, name, least)
    for thousands in (5, 10, 20, 50, 100):
        rules[f"wages {thousands},000 above income"] = partial(above_income, 1000 * thousands)
    return {name: rule for name, rule in rules.items() if not rule(real).any()}


def missing(frame: pandas.DataFrame, name: str) -> np.ndarray:
    """Records without a value; the survey writes -1 in columns of codes."""
    return np.asarray(frame[name].isna() | (frame[name] == -1))


def where_missing(one: str, other: str, frame: pandas.DataFrame) -> np.ndarray:
    """Records that have one value, though another, which always comes with it, is missing."""
    return missing(frame, other) & ~missing(frame, one)


def below(name: str, least: int, frame: pandas.DataFrame) -> np.ndarray:
    """Records of children that have a value."""
    return np.asarray(frame["AGEP"] < least) & ~missing(frame, name)


def above_income(dollars: int, frame: pandas.DataFrame) -> np.ndarray:
    """Records whose wages are far above their total income."""
    return np.asarray((frame["WAGP"] > frame["PINCP"] + dollars).fillna(False))


if __name__ == "__main__":
    main()
