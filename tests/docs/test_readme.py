"""What the README shows must run as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"


def test_the_examples_of_the_readme_run_one_after_another_and_state_the_guarantee(capsys):
    names = {}
    for code in re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.S):
        exec(compile(code, str(README), "exec"), names)
        assert "epsilon = 1" in capsys.readouterr().out


@pytest.mark.slow  # a demo and three releases
def test_the_commands_of_the_readme_run_one_after_another(tmp_path):
    for library in ("pyarrow", "narwhals", "rich", "matplotlib", "jinja2"):
        pytest.importorskip(library, reason="the command line needs privmw[app]")
    text = README.read_text("utf-8")
    blocks = re.findall(r"```sh\n(.*?)```", text, re.S)
    commands = re.findall(r"^(privmw .*)$", "".join(blocks).replace("\\\n", ""), re.M)
    commands.append(re.search(r"`(privmw explore \w+)`", text)[1])
    program = str(Path(sys.executable).parent / "privmw")
    assert [command.split()[1] for command in commands] == [
        "demo",
        "synthesize",
        "domain",
        "release",
        "explore",
    ]
    for command in commands:
        words = command.split("#")[0].split()[1:]
        smaller = ["--n", "2000"] if words == ["demo"] else []
        agreed = ["--yes"] if words[0] == "synthesize" else []  # no terminal here to ask on
        line = [program, *words, *smaller, *agreed]
        done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        if smaller:  # your files
            for name in ("private.parquet", "public.parquet"):
                (tmp_path / "privmw-demo" / name).rename(tmp_path / name)
    assert (tmp_path / "synthetic.csv").stat().st_size > 10_000
    assert (tmp_path / "out" / "report.html").is_file()
