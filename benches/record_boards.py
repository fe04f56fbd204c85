"""Boards for studies/records.py: records beside their public table, values outside the schema, peers.

`score` is the k-marginal score of pairs: amounts become twenty groups of ranks in the target.
"""

from __future__ import annotations

import itertools
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pandas

import privmw as pmw

GROUPS = 20  # of an amount's ranks in the target
SYNTHETIC = 10**6  # records whose schema is checked
# A peer reads codes and their numbers from csv and json, and writes codes.
PEER = """
import json, sys, warnings
warnings.filterwarnings("ignore")
import pandas
from dpmm.pipelines import AIMPipeline, MSTPipeline

method, folder, epsilon, seed, n = sys.argv[1:]
pipeline = {"AIM": AIMPipeline, "MST": MSTPipeline}[method](
    epsilon=float(epsilon), delta=1e-9, disable_processing=True, n_jobs=1
)
frame = pandas.read_csv(folder + "/private.csv")
pipeline.fit(frame, domain=json.load(open(folder + "/sizes.json")), random_state=int(seed))
pipeline.generate(int(n)).to_csv(folder + f"/{method}.csv", index=False)
"""


def score(records: pandas.DataFrame, target: pandas.DataFrame) -> float:
    """1000 for equal shares of all pairs, 0 for disjoint ones."""
    columns = {}
    for name in target.columns:
        values, own = target[name], records[name]
        if values.dtype.kind in "iuf" and values.nunique() > GROUPS:
            edges = np.unique(np.nanquantile(values.astype(float), np.arange(1, GROUPS) / GROUPS))
            columns[name] = [
                np.where(part.isna(), -1, np.searchsorted(edges, part.astype(float)))
                for part in (values, own)
            ]
        else:
            places = {value: place for place, value in enumerate(pandas.unique(values.astype(str)))}
            columns[name] = [part.astype(str).map(places).fillna(-1).to_numpy(int) for part in (values, own)]
    distances = []
    for one, other in itertools.combinations(columns, 2):
        shares = [
            pandas.Series(a * 10_000 + b).value_counts(normalize=True)
            for a, b in zip(columns[one], columns[other], strict=True)
        ]
        distances.append(shares[0].subtract(shares[1], fill_value=0).abs().sum())
    return float((2 - np.mean(distances)) * 500)


Sets = Mapping[str, tuple[pandas.DataFrame, pandas.DataFrame]]
Release = Callable[..., pmw.Synthesizer]


def harm(sets: Sets, release: Release, epsilons: list[float], seeds: list[int]) -> None:
    """The score of each set's public table, and the least and mean score of its releases."""
    print(f"{'set':34} {'public':>8} {'epsilon':>8} {'mean':>8} {'standard error':>15} {'least':>8}")
    for name, (private, public) in sets.items():
        own = score(public, private)
        for epsilon in epsilons:
            scores = [
                score(release(private, public, epsilon, seed).sample(seed=seed), private) for seed in seeds
            ]
            mean, error = np.mean(scores), np.std(scores, ddof=1) / len(scores) ** 0.5
            below = "" if mean >= own - error else "  below the public table"
            print(
                f"{name:34} {own:8.1f} {epsilon:8} {mean:8.1f} {error:15.1f} {min(scores):8.1f}{below}",
                flush=True,
            )


def schema(sets: Sets, release: Release) -> None:
    """Values that no public record has, and nulls in columns without public ones, in a million records."""
    print(f"{'set':34} {'records':>9} {'columns':>7} {'new values':>10} {'new nulls':>9} {'seconds':>8}")
    for name, (private, public) in sets.items():
        made = release(private, public, 1.0, 0)
        began = time.process_time()
        records = made.sample(SYNTHETIC, seed=0)
        seconds = time.process_time() - began
        new = nulls = 0
        for column in records.columns:
            values = records[column]
            known = public[column].dropna().unique()
            labels = made.domain_[column].edges is None
            new += int((~values.dropna().isin(known)).sum()) if labels else 0
            nulls += 0 if public[column].isna().any() else int(values.isna().sum())
        size = f"{len(records):9,} {records.shape[1]:7}"
        print(f"{name:34} {size} {new:10} {nulls:9} {seconds:8.1f}", flush=True)


def peers(
    python: str, private: pandas.DataFrame, domain: pmw.Domain, epsilon: float, seed: int
) -> dict[str, pandas.DataFrame]:
    """The records of dpmm's AIM and MST, on the same codes, with values spread in the same way."""
    table = pmw.Table.from_frame(private, domain, private=False)
    frames = {}
    with tempfile.TemporaryDirectory() as folder:
        codes = pandas.DataFrame({name: table.column(name).astype(int) for name in domain.names})
        codes.to_csv(Path(folder, "private.csv"), index=False)
        sizes = dict(zip(domain.names, domain.sizes, strict=True))
        pandas.Series(sizes).to_json(Path(folder, "sizes.json"))
        for method in ("MST", "AIM"):
            run = [python, "-c", PEER, method, folder, str(epsilon), str(seed), str(len(private))]
            ended = subprocess.run(run, capture_output=True, text=True, check=False)
            if ended.returncode:
                raise SystemExit(ended.stderr[-2000:])
            drawn = pandas.read_csv(Path(folder, f"{method}.csv"))[list(domain.names)]
            records = pmw.Table.from_codes(drawn.to_numpy(), domain, private=False)
            frames[method] = records.to_frame("pandas", bins="spread", seed=seed)
    return frames
