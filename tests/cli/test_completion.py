"""privmw completion: scripts that real shells take, from the parsers themselves."""

import json
import os
import pty
import re
import shlex
import shutil
import subprocess

import pytest

pytest.importorskip("shtab")

from privmw.cli import COMMANDS, main, make_parser

SCRIPTS = {"bash": "privmw.bash", "zsh": "_privmw", "fish": "privmw.fish"}
# What is typed, and what a shell offers for its last word.
TYPED = {
    "privmw synth": {"synthesize"},
    "privmw release --meas": {"--measure"},
    "privmw release --method mwem": {"mwem", "mwem-pub"},
    "privmw finish --format p": {"parquet"},
    "privmw completion ": {"bash", "zsh", "fish"},
    "privmw synthesize census_20": {"census_2020.csv"},
    "privmw answer census_rel": {"census_release/"},
}


@pytest.fixture
def here(tmp_path, monkeypatch, capsys):
    """A folder with the scripts, a file and a folder to complete."""
    monkeypatch.chdir(tmp_path)
    for shell, name in SCRIPTS.items():
        assert main(["completion", shell]) == 0
        (tmp_path / name).write_text(capsys.readouterr().out)
    (tmp_path / "census_2020.csv").touch()
    (tmp_path / "census_release").mkdir()
    return tmp_path


def need(shell):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")


@pytest.mark.parametrize("typed", TYPED)
def test_bash_completes(typed, here):
    need("bash")
    words = shlex.split(typed) + [""] * typed.endswith(" ")
    program = f"""
source privmw.bash
COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}
COMP_LINE={shlex.quote(typed)}; COMP_POINT=${{#COMP_LINE}}
complete=($(complete -p privmw))
for place in "${{!complete[@]}}"; do
  if [ "${{complete[place]}}" = -F ]; then function=${{complete[place + 1]}}; fi
done
$function privmw "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD - 1]}}"
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "--norc", "-c", program], capture_output=True, text=True)
    assert done.stderr == ""
    assert {word.rstrip("/") for word in done.stdout.split()} == {word.rstrip("/") for word in TYPED[typed]}


@pytest.mark.parametrize("typed", TYPED)
def test_fish_completes(typed, here):
    need("fish")
    program = f"source privmw.fish; complete --do-complete {shlex.quote(typed)}"
    done = subprocess.run(["fish", "--no-config", "-c", program], capture_output=True, text=True)
    assert done.stderr == ""
    assert {line.partition("\t")[0] for line in done.stdout.splitlines()} == TYPED[typed]


@pytest.mark.parametrize("typed", [typed for typed, offered in TYPED.items() if len(offered) == 1])
def test_zsh_completes(typed, here):
    need("zsh")
    # On a terminal, as its completion works nowhere else: a word with one continuation is completed.
    (wanted,) = TYPED[typed]
    ours, theirs = pty.openpty()
    shell = subprocess.Popen(
        ["zsh", "-f", "-i"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        env={**os.environ, "TERM": "dumb"},
    )
    os.close(theirs)
    setup = """PS1=; fpath=($PWD $fpath); autoload -U compinit; compinit -u -D
privmw() { print -r -- "typed <${@[-1]}"'>' }; echo rea''dy
"""
    seen = b""
    os.write(ours, setup.encode())
    while b"ready\r" not in seen:
        seen += os.read(ours, 4096)
    os.write(ours, f"{typed}\t\n".encode())
    while (entered := re.search(rb"typed <(.*)>\r", seen)) is None:
        seen += os.read(ours, 4096)
    shell.kill()
    shell.wait()
    os.close(ours)
    assert entered[1].decode() == wanted.rstrip("/")


def test_scripts_know_every_command_and_option(here):
    parsers = make_parser().commands
    assert set(parsers) == set(COMMANDS)
    for name in SCRIPTS.values():
        script = (here / name).read_text()
        for command, parser in parsers.items():
            assert command in script
            for option in filter(re.compile("--").match, parser._option_string_actions):
                assert option.removeprefix("--") in script, (command, option)


def test_programs_get_the_script_as_json(capsys):
    assert main(["completion", "fish", "--json"]) == 0
    assert "complete -c privmw" in json.loads(capsys.readouterr().out)["script"]
