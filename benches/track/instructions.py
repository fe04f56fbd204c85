"""Instructions of each kernel, and of one release from Python: counts that no other program disturbs.

kernels.cpp is compiled with the sources of a build and the options of its CMakeLists.txt, and calls every
kernel once. The counts of one compiler are the same on every x86-64 machine; those of two compilers do not
compare. So a gate whose compiler is not the baseline's counts the commit that wrote the baseline anew, with
its own compiler. The release's count also depends on Python and numpy: where they differ, it is not gated.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

from .builds import PINNED, ROOT, Build, shared_cache

X86 = platform.machine() in ("x86_64", "AMD64")
ROWS = 3000
DRIVER = Path(__file__).with_name("kernels.cpp")
RELEASE = "pep, marginals"
FROM_PYTHON = f"release from Python: {RELEASE}"
# Python calls span, and track_release calls Python: callgrind counts what happens in between. It does not see
# calls that ctypes makes, hence two functions; the asm keeps the calls from becoming jumps.
SPAN = """
__attribute__((noinline)) void track_release(void (*run)(void)) { run(); __asm__ volatile(""); }
void span(void (*run)(void)) { track_release(run); __asm__ volatile(""); }
"""


def compiler() -> str:
    found = os.environ.get("CXX", "g++")
    return subprocess.run(
        [found, "--version"], capture_output=True, text=True, check=True
    ).stdout.splitlines()[0]


def toolchain(build: Build) -> dict[str, str]:
    versions: dict[str, str] = build.run("worker", "versions")
    return {"compiler": compiler(), "machine": platform.machine(), **versions}


class Options(NamedTuple):
    """How CMakeLists.txt compiles the core: read from it, so that there is one list of options."""

    all: list[str]
    of_file: dict[str, list[str]]  # beside those; files with any are for x86-64, and compiled alone
    unity: bool  # whether a room's other files are compiled as one

    @classmethod
    def read(cls, root: Path) -> Options:
        text = (root / "CMakeLists.txt").read_text()
        common = re.search(r"target_compile_options\(privmw_core PUBLIC ([^)]*)\)", text)
        if not common:
            raise ValueError(f"{root / 'CMakeLists.txt'} must state the options of privmw_core")
        unity = re.search(r"set\(unity_options ([^)]*)\)", text)
        special = re.findall(
            r"set_source_files_properties\((\S+)\s+PROPERTIES\s+COMPILE_OPTIONS ([^)]*)\)", text
        )
        defined = re.findall(r"target_compile_definitions\(privmw_(?:core|draw) \w+ (\w+)\)", text)
        grown = unity.group(1).split() if unity else []
        here = [f"-D{name}" for name in defined] if X86 else []
        return cls(
            ["-std=c++20", "-O3", "-DNDEBUG", "-fPIC", *common.group(1).split(), *grown, *here],
            {file: options.strip('"').split(";") for file, options in special},
            "set(CMAKE_UNITY_BUILD ON" in text,
        )


def compile_driver(root: Path, folder: Path) -> Path:
    """The program kernels.cpp over the sources of `root`."""
    launcher = ["ccache"] if shutil.which("ccache") else []
    options, compile_it = Options.read(root), os.environ.get("CXX", "g++")
    sources = [str(DRIVER)]
    for room in ("core", "draw"):
        files = [str(path.relative_to(root)) for path in sorted((root / "csrc" / room).rglob("*.cpp"))]
        alone = [file for file in files if file in options.of_file]
        together = [file for file in files if file not in options.of_file]
        if options.unity:
            unity = folder / f"{room}.cpp"
            unity.write_text("".join(f'#include "{root / file}"\n' for file in together))
            together = [str(unity)]
        sources += together + (alone if X86 else [])
    jobs, objects = [], []
    for number, source in enumerate(sources):
        objects.append(str(folder / f"{number}.o"))
        flags = [*options.all, *options.of_file.get(source, []), "-Icsrc"]
        jobs.append([*launcher, compile_it, *flags, "-c", source, "-o", objects[-1]])
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        list(workers.map(partial(_run, root=root), jobs))
    program = folder / "kernels"
    _run([compile_it, *objects, "-pthread", "-o", str(program)])
    return program


def _run(command: list[str], root: Path = ROOT) -> None:
    environment = {**os.environ, **shared_cache(root)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, env=environment)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} must end well:\n{done.stderr}")


def tracked_functions() -> list[str]:
    return re.findall(r"^TRACKED (track_\w+)\(", DRIVER.read_text(), re.MULTILINE)


def count(
    command: list[str], functions: list[str], environment: dict[str, str] | None = None
) -> dict[str, int]:
    """Instructions within each of these functions (track_*) that the command calls: once, or it has none."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "callgrind.out"
        # Only the first of several functions to toggle at is heeded, a pattern is; dumps take no patterns.
        dumps = ["--toggle-collect=track_*", *(f"--dump-after={name}" for name in functions)]
        valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", *dumps]
        done = subprocess.run(
            valgrind + command,
            env=environment or {**os.environ, **PINNED},
            cwd=folder,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise RuntimeError(f"the run under callgrind must end well:\n{done.stderr}")
        counts = {}
        for dump in Path(folder).glob("callgrind.out.*"):
            text = dump.read_text()
            name = re.search(r"^desc: Trigger: --dump-after=(\w+)$", text, re.MULTILINE)
            total = re.search(r"^totals: (\d+)$", text, re.MULTILINE)
            if name and total:
                counts[name.group(1)] = int(total.group(1))
        if not any(counts.values()):
            raise RuntimeError(f"callgrind must have counted {', '.join(functions)}")
        return counts


def count_kernels(root: Path, *lengths: int) -> list[dict[str, int]]:
    """Instructions of each kernel of the sources in `root`, on data so many rows long."""
    functions = tracked_functions()
    with tempfile.TemporaryDirectory() as folder:
        program = compile_driver(root, Path(folder))
        counts = [count([str(program), str(rows)], functions) for rows in lengths or (ROWS,)]
    return [
        {name.removeprefix("track_").replace("_", " "): each[name] for name in functions if name in each}
        for each in counts
    ]


def count_release(build: Build) -> dict[str, int]:
    """Instructions of one release, Python's included; its data and a first run are not counted."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "span.so"
        source = Path(folder) / "span.c"
        source.write_text(SPAN)
        _run(["cc", "-O1", "-shared", "-fPIC", str(source), "-o", str(library)])
        command = build.command("worker", "spanned", RELEASE, str(library))
        return {FROM_PYTHON: count(command, ["track_release"], build.environment)["track_release"]}


def count_all(build: Build) -> dict[str, int]:
    (kernels,) = count_kernels(build.root)
    return {**kernels, **count_release(build)}


def require_valgrind() -> None:
    if not shutil.which("valgrind"):
        sys.exit("valgrind must be installed to count instructions (apt install valgrind)")
