"""What a step shows as long as it takes: a moving line on a terminal, lines with --progress."""

import threading

import pytest

import privmw.cli.console
from privmw.cli.console import Console


class Notes:
    """Stands for standard error; `wait` waits for a line with these words."""

    def __init__(self):
        self.lines, self.changed = [], threading.Condition()

    def __call__(self, text):
        with self.changed:
            self.lines.append(text)
            self.changed.notify_all()

    def wait(self, words):
        with self.changed:
            assert self.changed.wait_for(lambda: any(words in line for line in self.lines), 60), self.lines


@pytest.fixture
def notes(monkeypatch):
    monkeypatch.setattr(privmw.cli.console, "LOG_EVERY", 0.01)
    return Notes()


def logging_console(notes, **options):
    console = Console(progress=True, **options)
    console.note = notes
    return console


def test_a_step_that_tells_nothing_still_prints_lines(notes):
    with logging_console(notes).step("drawing"):
        notes.wait("drawing: 0 s")


def test_lines_say_how_much_is_done(notes):
    with logging_console(notes).step("writing answers.csv", 5_489_906) as advance:
        advance(262_144)
        notes.wait("writing answers.csv: 0 s, 262,144 of 5,489,906")


def test_a_step_that_fails_leaves_no_thread_behind(notes):
    def fail():
        with logging_console(notes).step("drawing"):
            raise ValueError("no")

    before = threading.active_count()
    with pytest.raises(ValueError, match="no"):
        fail()
    assert threading.active_count() == before


@pytest.mark.parametrize("options", [{"json": True}, {"quiet": True}])
def test_programs_and_quiet_people_see_no_progress(options, notes):
    with logging_console(notes, **options).step("drawing", 3) as advance:
        advance(3)
    assert notes.lines == []


def test_without_a_terminal_only_progress_prints(notes, capsys):
    with Console().step("drawing"), Console().rounds("releasing", 3):
        pass
    assert capsys.readouterr().err == ""
