"""What the README shows must run as it stands."""

import re
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_the_examples_of_the_readme_run_one_after_another_and_state_the_guarantee(capsys):
    names = {}
    for code in re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.S):
        exec(compile(code, str(README), "exec"), names)
        assert "epsilon = 1" in capsys.readouterr().out
