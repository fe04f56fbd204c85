"""Tables 1 and 2 of "An Uncertainty Principle is a Price of Privacy-Preserving Microdata", ours and theirs.

    python benches/study.py uncertainty tables    # 1,000 runs of every method on 16 histograms, epsilon .5
    python benches/study.py uncertainty sweep     # every histogram, six budgets: no failure, KKT residuals

PRIVMW_DATA names the folder of real data. The paper dropped runs whose optimiser failed, so its MaxFit and
Sequential columns are not what we should find: tests/extensions/postprocess/test_fits.py compares with other
solvers.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np

import privmw as pmw
from privmw.extensions.postprocess import (
    NoisyMarginal,
    NoisyMarginals,
    max_fit,
    nnls,
    ols,
    reweight,
    sequential,
)

METHODS = {method.__name__: method for method in (ols, nnls, max_fit, sequential, reweight)}
# The paper's squared errors, by method in the order above: of the sum; and of all cells, of the worst cell.
SUMS = """
Level00-2d     101.3    461.9    533.9    149.2    108.5
PUMA0101301    107.2    547.2    500.3    106.7    112.5
PUMA0800803    107.2    446.1    571.7    120.3    107.2
PUMA1304600    107.2    408.1    426.3    120.8    109.8
PUMA1703529    107.2    435.3    426.3    134.9    110.9
PUMA1703531    107.2    584.0    677.4    111.4    108.1
PUMA1901700    107.2    395.1    443.6    119.1    110.4
PUMA2401004    107.2    369.3    329.0    109.6    107.5
PUMA2602702    107.2    467.8    472.0    146.0    109.2
PUMA2801100    107.2    543.7    558.2    117.8    110.8
PUMA2901901    107.2    485.2    464.4    126.5    110.8
PUMA3200405    107.2    329.1    301.0    122.9    108.4
PUMA3603710    107.2    300.3    293.3     85.7    108.8
PUMA3604010    107.2    399.9    386.5    129.8    111.3
PUMA5101301    107.2    396.1    369.5    139.2    107.2
PUMA5151255    107.2    330.7    280.3    139.1    107.8
"""
CELLS = """
Level00-2d   10516.5    124.0    344.2    147.4    443.7    173.1    437.3    283.6    159.2     78.4
PUMA0101301  23906.2    142.9    809.0    135.6    910.7    144.6    782.9    179.7    731.3    209.8
PUMA0800803  23906.2    142.9   1179.8    107.5   1235.3    125.4   1171.7    189.8   1123.8    141.9
PUMA1304600  23906.2    142.9   1313.0    111.9   1385.5    142.3   1049.1    126.3   1264.4    136.0
PUMA1703529  23906.2    142.9   1243.8    105.3   1257.2     96.7   1019.1    114.3   1285.7    160.5
PUMA1703531  23906.2    142.9    562.2     94.9    599.0     72.1    429.9    112.9    409.8     78.8
PUMA1901700  23906.2    142.9   1516.1    115.9   1665.9    129.7   1312.1    156.9   1617.1    205.0
PUMA2401004  23906.2    142.9   1954.4    130.0   1971.8    147.8   1983.4    311.3   1760.1    168.9
PUMA2602702  23906.2    142.9    977.2    100.0    956.4    109.4    843.4    121.7    930.1    156.2
PUMA2801100  23906.2    142.9    686.9     97.5    705.7     79.0    534.2     92.7    516.0     78.7
PUMA2901901  23906.2    142.9    944.4    100.4    919.2    103.2    809.4    131.6    888.2    138.2
PUMA3200405  23906.2    142.9   2189.2    119.6   2191.5    134.7   1918.5    142.3   2336.1    259.1
PUMA3603710  23906.2    142.9   2884.1    119.2   3088.6    149.1   2484.2    140.7   2870.4    166.1
PUMA3604010  23906.2    142.9   1432.5    105.9   1442.3    120.6   1262.1    122.7   1448.6    194.0
PUMA5101301  23906.2    142.9   1474.7    108.3   1498.6    101.8   1394.5    203.4   1392.9    153.2
PUMA5151255  23906.2    142.9   2239.7    130.3   2274.1    124.3   2079.0    178.5   2123.0    172.8
"""
BUDGETS = (("epsilon", 1.0), ("epsilon", 0.5), ("epsilon", 0.1), ("rho", 0.5), ("rho", 0.125), ("rho", 0.005))


def read_table(text: str) -> dict[str, list[float]]:
    rows = (line.split() for line in text.strip().splitlines())
    return {name: [float(figure) for figure in figures] for name, *figures in rows}


def read_histograms() -> dict[str, np.ndarray]:
    file = Path(os.environ["PRIVMW_DATA"]) / "census_histograms" / "histograms.json"
    read = json.loads(file.read_text())
    real = {each["paper_name"]: np.array(each["counts"], float) for each in read["real"]}
    made = {each["name"].replace("_", "-"): np.array(each["counts"], float) for each in read["synthetic"]}
    return real | made


def measure(counts: np.ndarray, unit: str, budget: float, rng: np.random.Generator) -> NoisyMarginals:
    """The sum, every margin and the histogram, the budget split evenly."""
    domain = pmw.Domain({f"x{a}": size for a, size in enumerate(counts.shape)})
    margins = domain.names if counts.ndim > 1 else ()
    classes = [(), *((name,) for name in margins), domain.names]
    if unit == "epsilon":
        noise, scale, draw = "laplace", len(classes) / budget, rng.laplace
    else:
        noise, scale, draw = "gaussian", (len(classes) / (2 * budget)) ** 0.5, rng.normal
    found = []
    for names in classes:
        others = tuple(a for a, name in enumerate(domain.names) if name not in names)
        truth = np.asarray(counts.sum(axis=others))
        found.append(NoisyMarginal(names, truth + draw(0, scale, truth.shape), noise, scale))
    return NoisyMarginals(found, domain)


def tables(runs: int) -> None:
    histograms = read_histograms()
    print(f"squared errors over {runs} runs, epsilon .5: ours / the paper's (difference in standard errors)")
    far, solves, worst, sums = [], 0, 0.0, {}
    cells = read_table(CELLS)
    for number, (name, paper) in enumerate(read_table(SUMS).items()):
        counts, rng = histograms[name], np.random.default_rng([2021, number])
        of_sum = {method: np.empty(runs) for method in METHODS}
        of_cells = {method: np.empty((runs, counts.size)) for method in METHODS}
        for run in range(runs):
            measured = measure(counts, "epsilon", 0.5, rng)
            for method, solve in METHODS.items():
                fit = solve(measured)
                of_sum[method][run] = (fit.weights.sum() - counts.sum()) ** 2
                of_cells[method][run] = (fit.weights - counts.ravel()) ** 2
                worst = max(worst, fit.certificate.kkt, fit.certificate.violation)
                solves += 1
        print(f"{name}")
        for place, method in enumerate(METHODS):
            text = []
            total = of_cells[method].sum(axis=1)
            for what, values, theirs in (
                ("sum", of_sum[method], paper[place]),
                ("total", total, cells[name][2 * place]),
            ):
                error = values.std(ddof=1) / runs**0.5
                z = (values.mean() - theirs) / (2**0.5 * error)  # their error is taken to be ours
                if method in ("ols", "nnls", "reweight"):
                    far.append((abs(z), name, method, what))
                text.append(f"{what} {values.mean():8.1f} / {theirs:8.1f} ({z:+.1f})")
            largest = of_cells[method].mean(axis=0).max()
            text.append(f"max {largest:6.1f} / {cells[name][2 * place + 1]:6.1f}")
            print(f"  {method:10s}  {'   '.join(text)}", flush=True)
        # A Laplace variable of variance v squared has mean v and variance 5 v^2.
        sums[name] = (of_sum["sequential"].mean() - 128) / (128 * (5 / runs) ** 0.5)
    beyond = [entry for entry in sorted(far, reverse=True) if entry[0] > 3]
    print(f"OLS, NNLS, ReWeight: {len(far)} figures, largest |z| {max(far)[0]:.2f}, beyond 3: {beyond}")
    print(f"Sequential's sum against 128, in standard errors: largest {max(map(abs, sums.values())):.2f}")
    print(
        f"{solves} solves, none dropped; largest KKT residual or violation {worst:.1e} of the largest answer"
    )


def sweep(runs: int) -> None:
    worst, solves, began = dict.fromkeys(METHODS, 0.0), 0, time.perf_counter()
    for number, (_, counts) in enumerate(read_histograms().items()):
        rng = np.random.default_rng([31, number])
        for unit, budget in BUDGETS:
            for _ in range(runs):
                measured = measure(counts, unit, budget, rng)
                for method, solve in METHODS.items():
                    found = solve(measured).certificate
                    worst[method] = max(worst[method], found.kkt, found.violation)
                    solves += 1
    took = time.perf_counter() - began
    print(f"{solves} solves in {took:.0f} s, {solves} fits; largest KKT residual or violation, relative:")
    for method, found in worst.items():
        print(f"  {method:10s}  {found:.1e}")


if __name__ == "__main__":
    as_written = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=as_written)
    parser.add_argument("what", choices=("tables", "sweep"))
    parser.add_argument("--runs", type=int, help="per dataset (1,000), or per histogram and budget (25)")
    given = parser.parse_args()
    pmw.kernels.set_threads(1)
    tables(given.runs or 1000) if given.what == "tables" else sweep(given.runs or 25)
