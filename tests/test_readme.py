"""What the README shows must run as it stands."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.S))
def test_the_example_of_the_readme_runs_and_states_its_guarantee(code, capsys):
    exec(compile(code, str(README), "exec"), {})
    assert "zCDP" in capsys.readouterr().out
