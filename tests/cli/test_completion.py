from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from unittest import mock

import pytest

from ckpttool.cli.completion import (
    SCRIPTS,
    complete_addresses,
    complete_names,
    complete_paths,
    split_line,
)
from ckpttool.cli.main import COMMANDS, HELPERS, main
from tests.support.fixtures import FIXTURES, ROOT

ADAM = os.path.join(FIXTURES, "v2", "tf2.21", "guide_legacy_adam", "tf_ckpts")
ODD = os.path.join(FIXTURES, "v2", "tf2.21", "odd_keys", "odd")
SHELLS = sorted(SCRIPTS)
BREAKS = " \t\n\"'@><=;|&(:"
GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
TOP = [GRAPH, "iterator/", "net/", "optimizer/", "save_counter", "step"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a program `ckpt` in bin/ and some checkpoints in `my run`."""
    program = tmp_path / "bin" / "ckpt"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ckpttool "$@"\n')
    program.chmod(0o755)
    shutil.copytree(ADAM, tmp_path / "run")
    shutil.copytree(ADAM, tmp_path / "my runs")
    return tmp_path


def environment(folder: Path, **more: str) -> dict[str, str]:
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("CKPT", "_CKPT"))
    }
    path = f"{folder}/bin:{os.environ['PATH']}"
    return {**kept, "PATH": path, "PYTHONPATH": ROOT, "HOME": str(folder), "TERM": "dumb", **more}


def ask(folder: Path, shell: str, line: str, breaks: str = BREAKS) -> list[str]:
    """Return what the program answers to a script that asks from within `folder`."""
    variables = {
        "_CKPT_COMPLETE": f"{shell}_complete",
        "_CKPT_LINE": line,
        "_CKPT_WORDBREAKS": breaks,
    }
    here = Path.cwd()
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    os.chdir(folder)
    try:
        with (
            mock.patch.dict(os.environ, environment(folder, **variables), clear=True),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            assert main() == 0
    finally:
        os.chdir(here)
    assert err.buffer.getvalue() == b""
    return out.buffer.getvalue().decode().splitlines()


def values(lines: list[str]) -> list[str]:
    return [line.split("\t")[0] for line in lines if line]


@pytest.mark.parametrize("shell", SHELLS)
def test_the_scripts_are_what_click_gives(folder: Path, shell: str) -> None:
    done = subprocess.run(
        ["ckpt"],
        env=environment(folder, _CKPT_COMPLETE=f"{shell}_source"),
        capture_output=True,
        timeout=60,
        check=True,
    )
    script = files("ckpttool.cli") / "completions" / SCRIPTS[shell]
    assert done.stdout.rstrip(b"\n") == script.read_bytes().rstrip(b"\n")
    assert done.stderr == b""


@pytest.mark.parametrize("shell", SHELLS)
def test_the_shells_accept_their_scripts(shell: str) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    script = files("ckpttool.cli") / "completions" / SCRIPTS[shell]
    done = subprocess.run([program, "-n", str(script)], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize(
    ("line", "words", "value", "raw", "quote"),
    [
        ("", [], "", "", ""),
        ("ckpt", [], "ckpt", "ckpt", ""),
        ("ckpt ", ["ckpt"], "", "", ""),
        ("ckpt ls  a/b", ["ckpt", "ls"], "a/b", "a/b", ""),
        (r"ckpt my\ run/c", ["ckpt"], "my run/c", r"my\ run/c", ""),
        ("ckpt 'my run", ["ckpt"], "my run", "'my run", "'"),
        ("ckpt 'my run' ", ["ckpt", "my run"], "", "", ""),
        ('ckpt "a\\"b', ["ckpt"], 'a"b', '"a\\"b', '"'),
        ("ckpt 'a\\", ["ckpt"], "a\\", "'a\\", "'"),
        ("ckpt a'b c'd", ["ckpt"], "ab cd", "a'b c'd", ""),
        ("ckpt ''", ["ckpt"], "", "''", ""),
        ("ckpt '' x", ["ckpt", ""], "x", "x", ""),
        ("ckpt a\\", ["ckpt"], "a", "a\\", ""),
    ],
)
def test_splitting_a_line(line: str, words: list[str], value: str, raw: str, quote: str) -> None:
    whole, typed = split_line(line)
    assert (whole, typed.value, typed.raw, typed.quote) == (words, value, raw, quote)


@pytest.mark.parametrize("shell", SHELLS)
class TestProtocol:
    def test_commands_with_their_help(self, folder: Path, shell: str) -> None:
        lines = ask(folder, shell, "ckpt ")
        assert values(lines)[:2] == ["ls", "show"]
        assert values(ask(folder, shell, "ckpt sh")) == ["show"]
        assert ("\tList" in lines[0]) == (shell != "bash")

    def test_options(self, folder: Path, shell: str) -> None:
        found = values(ask(folder, shell, "ckpt ls --"))
        assert {"--include", "--kind", "--json", "--color", "--verbose"} <= set(found)
        assert "--version" in values(ask(folder, shell, "ckpt --"))

    def test_values_of_options(self, folder: Path, shell: str) -> None:
        assert values(ask(folder, shell, "ckpt ls run --format js")) == ["json", "jsonl"]
        assert values(ask(folder, shell, "ckpt ls run --kind st")) == ["step"]
        assert values(ask(folder, shell, "ckpt ls run --kind slot,s")) == ["slot,step"]
        joined = values(ask(folder, shell, "ckpt ls run --format=js"))
        before = "" if shell == "bash" else "--format="
        assert joined == [f"{before}json", f"{before}jsonl"]

    def test_paths(self, folder: Path, shell: str) -> None:
        assert values(ask(folder, shell, "ckpt ls r")) == ["run/"]
        found = values(ask(folder, shell, "ckpt ls run/c"))
        assert found == ["run/checkpoint", "run/ckpt-3", "run/ckpt-4", "run/ckpt-5"]
        space = r"my\ runs/" if shell == "bash" else "my runs/"
        assert values(ask(folder, shell, "ckpt ls m")) == [space]
        assert values(ask(folder, shell, r"ckpt ls my\ ru")) == [space]
        assert values(ask(folder, shell, "ckpt ls ~/r")) == ["~/run/"]

    def test_keys_and_object_paths(self, folder: Path, shell: str) -> None:
        for typed in ("run", "run/ckpt-4", "run/ckpt-4.index", "my\\ runs", "'my runs'", "~/run"):
            assert values(ask(folder, shell, f"ckpt ls {typed} ")) == TOP
        assert values(ask(folder, shell, "ckpt ls run net/l1/k")) == ["net/l1/kernel"]
        key = "net/l1/kernel/.ATTRIBUTES/VARIABLE_VALUE"
        assert values(ask(folder, shell, "ckpt ls run net/l1/kernel/.A")) == [
            "net/l1/kernel/.ATTRIBUTES/"
        ]
        assert values(ask(folder, shell, "ckpt ls run net/l1/kernel/.ATTRIBUTES/")) == [key]
        assert values(ask(folder, shell, "ckpt ls run -x opt")) == ["optimizer/"]
        assert values(ask(folder, shell, "ckpt ls -i step run -x save")) == ["save_counter"]
        assert values(ask(folder, shell, "ckpt ls --include st run ne")) == ["net/"]
        assert values(ask(folder, shell, "ckpt show run st")) == ["step"]
        mark = "" if shell == "bash" else "="
        assert values(ask(folder, shell, "ckpt ls run =save")) == [f"{mark}save_counter"]

    @pytest.mark.parametrize(
        "line",
        [
            "ckpt ls nothing/here ",
            "ckpt ls run/checkpoint.gone net",
            "ckpt ls /dev/null x",
            "ckpt nonsense ",
            "ckpt ls run re:x",
            "ckpt ls --format xml run q",
            "ckpt ls run '",
            "ckpt ls \udcff",
            "ckpt ls run zz[",
            "",
            "   ",
        ],
    )
    def test_silence_where_there_is_nothing(self, folder: Path, shell: str, line: str) -> None:
        assert set(values(ask(folder, shell, line))) <= {*TOP, *COMMANDS, *HELPERS}


@pytest.mark.parametrize("shell", SHELLS)
def test_as_a_program(folder: Path, shell: str) -> None:
    variables = {"_CKPT_COMPLETE": f"{shell}_complete", "_CKPT_LINE": "ckpt ls run net/l1/k"}
    done = subprocess.run(
        ["ckpt"],
        env=environment(folder, **variables),
        cwd=folder,
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert (done.stdout, done.stderr) == (b"net/l1/kernel\n", b"")


@pytest.mark.parametrize(
    "instruction", ["", "bash", "tcsh_complete", "bash_nonsense", "_", "fish_"]
)
def test_odd_instructions_print_no_error(folder: Path, instruction: str) -> None:
    done = subprocess.run(
        ["ckpt", "--version"],
        env=environment(folder, _CKPT_COMPLETE=instruction),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == b""
    assert done.returncode in (0, 1)


def test_a_damaged_checkpoint_completes_nothing(folder: Path) -> None:
    for name in ("run/ckpt-5.index", "run/checkpoint"):
        (folder / name).write_bytes(b"\xff" * 100)
        assert ask(folder, "bash", "ckpt ls run/ckpt-5 n") in ([], [""])
        assert ask(folder, "bash", "ckpt ls run n") in ([], [""])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ckpt ls 'my ru", ["my runs/"]),
        ('ckpt ls "my ru', ["my runs/"]),
        ("ckpt ls run/'ck", ["ckpt-3", "ckpt-4", "ckpt-5"]),
        ("ckpt ls --kind=st", ["step"]),
        ("ckpt ls run --include==sa", ["save_counter"]),
        ("ckpt ls run @ru", ["run/"]),
    ],
)
def test_bash_gets_what_follows_the_last_word_break(
    folder: Path, line: str, expected: list[str]
) -> None:
    assert [each for each in ask(folder, "bash", line) if each] == expected


def test_bash_gets_special_characters_escaped(folder: Path) -> None:
    (folder / "d$(x)[1]&").mkdir()
    assert ask(folder, "bash", "ckpt ls d") == ["d\\$\\(x\\)\\[1\\]\\&/"]
    assert ask(folder, "bash", 'ckpt ls "d') == ["d\\$(x)[1]&/"]
    assert ask(folder, "bash", "ckpt ls 'd") == ["d$(x)[1]&/"]


def test_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (
        "ckpt-1.index",
        "ckpt-1.data-00000-of-00001",
        "ckpt-1.meta",
        "ckpt-1.index.tempstate123",
        "v1",
        ".hidden",
    ):
        Path(name).write_bytes(b"")
    Path("folder").mkdir()
    found = [item.value for item in complete_addresses("")]
    assert found == ["ckpt-1", "ckpt-1.meta", "folder/", "v1"]
    assert [item.value for item in complete_addresses(".h")] == [".hidden"]
    assert [item.value for item in complete_addresses("ckpt-1.i")] == [
        "ckpt-1.index",
        "ckpt-1.index.tempstate123",
    ]
    assert complete_addresses("nothing/x") == []
    assert complete_paths("", folders_only=True) == ["folder/"]
    assert complete_paths("a\0b/") == []


def test_names_with_odd_characters_can_be_completed_and_are_printable() -> None:
    found = [item.value for item in complete_names([ODD], "")]
    assert found
    assert all(str(value).isprintable() for value in found)


def test_names_scope_by_scope() -> None:
    def names(typed: str) -> list[str]:
        return [str(item.value) for item in complete_names([ADAM], typed)]

    assert names("") == TOP
    assert names("net/") == ["net/l1/"]
    assert names("net/l1/") == ["net/l1/bias", "net/l1/kernel"]
    assert names("net/l1/bias/") == ["net/l1/bias/.OPTIMIZER_SLOT/"]
    assert names("=st") == ["=step"]
    assert names("x") == []
    assert complete_names([], "") == []


def test_variable_names_where_no_path_begins_so() -> None:
    keras = os.path.join(FIXTURES, "v2", "tf2.21", "keras3_adam")
    for typed, names in {
        "seq": ["sequential/"],
        "=sequential/dense/k": ["=sequential/dense/kernel"],
        "opt": ["optimizer/"],
        "nothing": [],
    }.items():
        assert [item.value for item in complete_names([keras], typed)] == names


def test_patterns_from_a_file_are_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("patterns").write_text("")
    assert [item.value for item in complete_names([ADAM], "@pa")] == ["@patterns"]


BASH = """
source "$1"
complete -p ckpt
COMP_LINE="$2" COMP_POINT=${#2}
read -ra COMP_WORDS <<< "$2"
_ckpt_completion ckpt
printf '%s\\n' "${COMPREPLY[@]}"
"""
ZSH = """
zmodload zsh/zpty
zpty shell zsh -f -i
send() { zpty -w shell "$1" }
send 'PS1=; unsetopt zle_bracketed_paste 2>/dev/null; autoload -Uz compinit; compinit -u -D'
send "source ${(q)1}"
send "zstyle ':completion:*' verbose yes; bindkey '^I' complete-word; echo READ''Y"
zpty -r -m shell seen '*READY*'
zpty -w -n shell "$2"$'\\t'
sleep 1
zpty -w -n shell $'\\x01echo \\x22<\\x22\\x05 \\x22>\\x22; exit\\n'
seen=''
while zpty -r shell part; do seen+=$part; done
print -r -- "$seen"
"""


def drive(folder: Path, shell: str, program: list[str]) -> str:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run(
        program,
        env=environment(folder, XDG_CONFIG_HOME=str(folder), XDG_DATA_HOME=str(folder)),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return done.stdout


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ckpt l", ["ls"]),
        ("ckpt ls run/ckpt-", ["run/ckpt-3", "run/ckpt-4", "run/ckpt-5"]),
        ("ckpt ls run net/l1/k", ["net/l1/kernel"]),
        ("ckpt ls m", ["my\\ runs/"]),
    ],
)
def test_in_bash(folder: Path, line: str, expected: list[str]) -> None:
    script = str(files("ckpttool.cli") / "completions" / SCRIPTS["bash"])
    out = drive(folder, "bash", ["bash", "--norc", "-c", BASH, "bash", script, line])
    first, *found = out.splitlines()
    assert first == "complete -o nosort -F _ckpt_completion ckpt"
    assert found == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ckpt s", ["show"]),
        ("ckpt ls run/ckpt-", ["run/ckpt-3", "run/ckpt-4", "run/ckpt-5"]),
        ("ckpt ls run net/l1/k", ["net/l1/kernel"]),
        ("ckpt ls 'my runs' sav", ["save_counter"]),
        ("ckpt ls run --format=cs", ["--format=csv"]),
    ],
)
def test_in_fish(folder: Path, line: str, expected: list[str]) -> None:
    script = files("ckpttool.cli") / "completions" / SCRIPTS["fish"]
    code = f"source '{script}'; complete --do-complete '" + line.replace("'", "\\'") + "'"
    out = drive(folder, "fish", ["fish", "--no-config", "-c", code])
    assert values(out.splitlines()) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ckpt ls run net/l1/k", "<ckpt ls run net/l1/kernel >"),
        ("ckpt ls run save", "<ckpt ls run save_counter >"),
        ("ckpt sho", "<ckpt show >"),
    ],
)
def test_in_zsh(folder: Path, line: str, expected: str) -> None:
    script = str(files("ckpttool.cli") / "completions" / SCRIPTS["zsh"])
    out = drive(folder, "zsh", ["zsh", "-f", "-c", ZSH, "zsh", script, line])
    assert expected in " ".join(out.split())
