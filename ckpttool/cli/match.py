"""`ckpt match`: why weights do not load."""

from __future__ import annotations

import json
import os
import sys
from contextlib import ExitStack

import click

from ckpttool.api.match import Match, match
from ckpttool.checkpoint.locate import locate
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.cli import options
from ckpttool.cli.failures import DONE, NEGATIVE
from ckpttool.query.diff.renames import save_map
from ckpttool.query.match.restore import open_target
from ckpttool.render.match import text as render

EXAMPLES = (
    ("ckpt match ckpts published", "What a program that wrote `published` would take."),
    ("ckpt match ckpts published --rename-map renames.json", "The suggested renames as a file."),
    ("ckpt match ckpts published --ignore 'optimizer/**'", "Without the optimizer."),
    ("ckpt match ckpts published --skip-slots --partial", "Exit code 0 if objects get values."),
    ("ckpt match ckpts model.lock.json --read", "Compare with a lock file."),
    ("ckpt match ckpts saved_model --json", "The whole answer, for programs."),
)
# Rows have no place for the verdict and what to do: with -v, both go to stderr.
_WITHOUT_VERDICT = ("plain", "csv", "markdown", "names")


@options.command("match", examples=EXAMPLES)
@options.path_argument("checkpoint", metavar="CHECKPOINT")
@options.path_argument("target", metavar="TARGET")
@click.option("--read", is_flag=True, help="Match as Checkpoint.read does: without save counter.")
@click.option("--skip-slots", is_flag=True, help="Leave slot variables in the checkpoint.")
@click.option(
    "--partial", is_flag=True, help="Exit code 0 if every object of the program gets its value."
)
@options.ignore_option
@click.option(
    "--rename-map",
    metavar="FILE",
    type=click.Path(),
    help="Write detected renames as a map for `ckpt rename` (- for stdout).",
)
@click.option("--force", is_flag=True, help="Replace an existing --rename-map file.")
@click.option("-a", "--all", is_flag=True, help="Also show matched tensors.")
@options.format_options()
@options.pass_settings
def command(
    settings: options.Settings,
    checkpoint: str,
    target: str,
    read: bool,
    skip_slots: bool,
    partial: bool,
    ignore: tuple[str, ...],
    rename_map: str | None,
    force: bool,
    all: bool,
    format: str,
) -> int:
    """Show what restoring CHECKPOINT into a program would do, and why it does not load whole.

    TARGET stands for the program: a checkpoint that the program wrote before restoring, such as
    tf.train.Checkpoint(net=net).write('fresh'); a SavedModel; or a lock file. Only indexes and
    object graphs are read. Exit code 0: assert_consumed() would pass, 1: it would not, 2: could
    not be told.
    """
    if force and rename_map in (None, "-"):
        raise click.UsageError("--force needs --rename-map FILE")
    location = locate(checkpoint)
    settings.report(location)
    with Checkpoint(location) as ckpt, ExitStack() as program:
        expected = open_target(target)
        if isinstance(expected, Checkpoint):
            settings.report(program.enter_context(expected).location)
        found = match(
            ckpt,
            expected,
            mode="read" if read else "restore",
            skip_slots=skip_slots,
            ignore=ignore,
        )
    if rename_map is not None:
        _write_map(found, rename_map, force=force)
    if rename_map != "-":
        render.write_match(
            found,
            found.advice,
            found.ignored,
            format,
            sys.stdout,
            settings.terminal(),
            everything=all,
            named=settings.verbosity > 0,
        )
        if format in _WITHOUT_VERDICT:
            for line in render.brief_lines(found, found.advice):
                settings.note(line)
    passed = found.verdict.existing_objects_matched if partial else found.verdict.consumed
    return DONE if passed else NEGATIVE


def _write_map(found: Match, path: str, *, force: bool) -> None:
    """Write the suggestions as a JSON object, which holds names of any characters."""
    rules = {each.old: each.new for each in found.suggestions}
    text = json.dumps(rules, indent=2) + "\n"
    if path == "-":
        sys.stdout.write(text)
    else:
        save_map(text, os.fspath(path), force=force)
