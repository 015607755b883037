"""An option means the same in every command that has it."""

from __future__ import annotations

import csv
import io
import os
from collections import defaultdict
from pathlib import Path

import click
import pytest

from ckpttool.cli.main import cli
from tests.support.command import ckpt
from tests.support.fixtures import FIXTURES

# What an option does in terms of a command; all else is said in the same words everywhere.
SAME_IN_OTHER_WORDS = {
    "--all",
    "--compact",
    "--data",
    "--force",
    "--graph",
    "--jobs",
    "--json",
    "--kind",
    "--like",
    "--map",
    "--meta",
    "--output",
    "--strict",
    "--table",
    "--to",
}
# Of another meaning, as in other programs: `git clean -n` and `-f`, and a number to keep.
APART = {("gc", "--force"), ("gc", "--keep"), ("gc", "--dry-run"), ("verify", "--dry-run")}


def options() -> dict[str, dict[str, click.Option]]:
    """Return the options of all commands: by their long names, then by command."""
    context = click.Context(cli)
    found: dict[str, dict[str, click.Option]] = defaultdict(dict)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        for param in command.params:
            if isinstance(param, click.Option):
                long = next(each for each in param.opts if each.startswith("--"))
                if (name, long) not in APART:
                    found[long][name] = param
    return found


SHARED = {name: every for name, every in options().items() if len(every) > 1}


@pytest.mark.parametrize("name", SHARED)
def test_an_option_has_one_short_name_and_one_form(name: str) -> None:
    every = SHARED[name].values()
    assert len({frozenset(each for each in one.opts if len(each) == 2) for one in every}) == 1
    assert len({(one.is_flag, one.multiple, one.count, one.nargs) for one in every}) == 1


@pytest.mark.parametrize("name", SHARED)
def test_an_option_is_described_in_the_same_words(name: str) -> None:
    said = {one.help for one in SHARED[name].values()}
    assert (len(said) > 1) == (name in SAME_IN_OTHER_WORDS), said


def test_words_of_options_that_differ() -> None:
    for command, option in SHARED["--strict"].items():
        assert (option.help or "").startswith("Fail "), command
    for command, option in SHARED["--force"].items():
        assert (option.help or "").startswith("Replace "), command
    for command, option in SHARED["--kind"].items():
        assert "only tensors of these kinds" in (option.help or "").lower(), command


def test_a_letter_stands_for_one_option() -> None:
    letters: dict[str, set[str]] = defaultdict(set)
    for long, every in options().items():
        for option in every.values():
            for spelled in option.opts:
                if len(spelled) == 2:
                    letters[spelled].add(long)
    assert {letter: names for letter, names in letters.items() if len(names) > 1} == {}


def test_counts_agree(tmp_path: Path) -> None:
    """The object graph is stored like a tensor, and is none."""
    prefix = os.path.join(FIXTURES, "v2/tf2.21/guide_legacy_adam/tf_ckpts/ckpt-5")
    lock = str(tmp_path / "lock.json")
    both = "14 tensors and the object graph"
    assert both in ckpt("ls", prefix, "--format", "table").out
    assert both in ckpt("show", prefix).out
    assert both in ckpt("verify", prefix, "--format", "table").out
    assert both in ckpt("check", prefix, "--against", lock, "--update", "--format", "table").out
    assert both in ckpt("check", prefix, "--against", lock, "--format", "table").out
    assert both in ckpt("check", prefix, "--finite", "--format", "table").out
    assert "of 14 tensors, 4 dropped" in ckpt("prune", prefix, "--slots", "-n").err
    rows = list(csv.DictReader(io.StringIO(ckpt("ls", "-d", prefix, "--format", "csv").out)))
    assert {row["tensors"] for row in rows} == {"14"}
    assert "14 tensors: " in ckpt("diff", os.path.dirname(prefix), "--format", "table").out
    assert "4 tensors, 20 elements" in ckpt("ls", prefix, "--kind", "slot", "--format", "table").out
