"""The README's first example on an installed wheel, with its compiled kernels: what every wheel must do."""

import re
from pathlib import Path

import privmw

README = Path(__file__).parents[2] / "README.md"

example = re.search(r"```python\n(.*?)```", README.read_text("utf-8"), re.S)
assert example
exec(compile(example.group(1), str(README), "exec"))
assert privmw.kernels.backend() == "native", privmw.kernels.backend()
