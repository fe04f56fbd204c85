"""What takes long in a small release, and not every test needs: its pictures, and the release itself."""

import shutil

import pytest

BLANK = b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"/>'


@pytest.fixture
def blank_pictures(monkeypatch):
    """Reports with pictures that show nothing, for tests that are not about them."""
    figure = pytest.importorskip("matplotlib.figure")
    monkeypatch.setattr(figure.Figure, "savefig", lambda _, file, **options: file.write(BLANK))


@pytest.fixture(scope="session")
def first_release(tmp_path_factory):
    from cli.cases import release_line, write_pair
    from privmw.cli import main

    folder = tmp_path_factory.mktemp("first")
    write_pair(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main([*release_line(seed=1), "--quiet"]) == 0
    return folder


@pytest.fixture
def released(first_release, tmp_path, monkeypatch):
    """Work in a folder with the files of write_pair and their release, by seed 1, in out."""
    shutil.copytree(first_release, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path
