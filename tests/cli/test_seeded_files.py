"""Every file that a seeded release and its post-processing write says that it is not for release."""

import json

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

from cli.cases import RELEASED, release_line
from privmw.cli import main
from privmw.io.files import about


def marked(path):
    """Whether a file says it, in the way of its kind."""
    if path.suffix == ".parquet":
        return about(str(path)).get("for_release") is False
    if path.suffix == ".json":
        return json.loads(path.read_text()).get("for_release") is False
    return b"NOT FOR RELEASE" in path.read_bytes() or b"not for release" in path.read_bytes()


def test_every_file_of_a_seeded_release_and_of_its_fit_carries_the_mark(released):
    line = "postprocess out/measurements.parquet --domain domain.json --method nnls --public public.parquet"
    assert main([*line.split(), "-o", "fit", "--quiet"]) == 0
    for folder, least in (("out", 6), ("fit", 4)):
        files = sorted((released / folder).iterdir())
        assert len(files) >= least
        unmarked = [path.name for path in files if path.suffix != ".npz" and not marked(path)]
        public = ["domain.json", "public-values.parquet"]  # no seed had a part in them
        assert unmarked == (public if folder == "out" else [])


@pytest.mark.parametrize("form", ["parquet", "feather", "csv"])
def test_records_of_a_seeded_release_are_no_public_file_of_another(form, released, capsys, blank_pictures):
    name = "synthetic.seeded.csv" if form == "csv" else f"synthetic.{form}"
    if form != "parquet":
        for stem in ("answers", "measurements", "synthetic"):
            (released / "out" / f"{stem}.parquet").unlink()
        assert main(["finish", "out", "--format", form, "--quiet"]) == 0
    line = release_line(public=f"out/{name}", marginals=1, output="again")
    assert main([*line, "--quiet"]) == 2
    assert "of a seeded release: not for release) must come with a seeded rng" in capsys.readouterr().err
    assert (
        main([*release_line(public=f"out/{name}", marginals=1, output="new", seed=2), "--quiet"]) in RELEASED
    )
