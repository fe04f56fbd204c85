"""Instructions of one evaluation, counted by valgrind: a figure that no other program disturbs, for a gate.

    python benches/study.py callgrind [rows] [marginals]

Two runs under callgrind differ by ten evaluations only; a tenth of the difference is the count.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

DRIVER = """
import sys
import numpy as np
import privmw as pmw
from shapes import acs67
rows, size, evaluations = map(int, sys.argv[1:])
support = pmw.Support.from_table(acs67(rows))
marginals = support.marginals(pmw.Workload.sample(support.domain, k=3, size=size, seed=0))
masses, out = np.ones(support.size, np.int64), np.empty(marginals.cells, np.int64)
for _ in range(evaluations):
    marginals.sums(masses, out, threads=1)
"""


def instructions(rows: int, marginals: int, evaluations: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "callgrind.out"
        command = [
            "valgrind",
            "--tool=callgrind",
            f"--callgrind-out-file={out}",
            sys.executable,
            "-c",
            DRIVER,
        ]
        environment = {
            **os.environ,
            "PYTHONPATH": str(Path(__file__).resolve().parents[1]),
            "PYTHONHASHSEED": "0",
        }
        environment |= {"OPENBLAS_NUM_THREADS": "1"}
        numbers = [str(number) for number in (rows, marginals, evaluations)]
        # From a folder without privmw's sources: the installed package is the one to count.
        done = subprocess.run(
            [*command, *numbers], env=environment, cwd=folder, capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(f"the run under callgrind must end well:\n{done.stderr}")
        found = re.search(r"^(?:totals|summary): (\d+)", out.read_text(), re.MULTILINE)
        if not found:
            raise RuntimeError("callgrind must have written a total")
        return int(found.group(1))


if __name__ == "__main__":
    rows, marginals = (int(argument) for argument in (sys.argv[1:] or ["5000", "4096"]))
    count = (instructions(rows, marginals, 11) - instructions(rows, marginals, 1)) // 10
    print(f"{count:,} instructions, {count / (rows * marginals):.3f} per row and marginal")
