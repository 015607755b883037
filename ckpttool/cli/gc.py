"""`ckpt gc`: delete the checkpoints of a folder that a manager would delete."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import click

from ckpttool.cli import options
from ckpttool.cli.failures import DONE, FAILED
from ckpttool.render.gc import sweep_line, write_sweep
from ckpttool.surgery.retention.execution import sweep

if TYPE_CHECKING:
    HoursType = click.ParamType[float]
else:
    HoursType = click.ParamType  # not generic in the older versions of click

EXAMPLES = (
    ("ckpt gc ckpts --keep 3 -n", "What a manager that keeps three would delete."),
    ("ckpt gc ckpts --keep 3 -f", "Delete it."),
    ("ckpt gc ckpts --keep 5 --keep-every 2h -n", "Also keep one for every two hours."),
    ("ckpt gc ckpts --keep 5 --keep-every-steps 1000 -n", "Also keep every thousandth step."),
    ("ckpt gc ckpts --keep 2 --all -n", "Checkpoints that the state file does not list, too."),
    ("ckpt gc ckpts --keep 1 -n --json", "The same for programs."),
)
_SPAN = re.compile(r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*(s|sec|min|m|h|d)\Z", re.IGNORECASE)
_HOURS = {"s": 1 / 3600, "sec": 1 / 3600, "m": 1 / 60, "min": 1 / 60, "h": 1.0, "d": 24.0}


class Hours(HoursType):
    """A span of time, in hours: 2h, 90min, 1d."""

    name = "time"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the hours."""
        match = _SPAN.match(str(value).strip())
        if match is None:
            self.fail(f"'{value}' is no span of time such as 2h, 90min or 1d", param, ctx)
        hours = float(match[1]) * _HOURS[match[2].lower()]
        if hours <= 0:
            self.fail("the span is empty", param, ctx)
        return hours


@options.command("gc", examples=EXAMPLES)
@options.path_argument("folder", metavar="FOLDER")
@click.option(
    "--keep",
    metavar="N",
    type=click.IntRange(min=1),
    required=True,
    help="Keep the last N checkpoints.",
)
@click.option(
    "--keep-every",
    metavar="TIME",
    type=Hours(),
    help="Of the others, keep one for good for each TIME that has passed, such as 2h.",
)
@click.option(
    "--keep-every-steps",
    metavar="N",
    type=click.IntRange(min=1),
    help="Of the others, keep those whose number is a multiple of N.",
)
@click.option(
    "-a",
    "--all",
    is_flag=True,
    help="Take in complete checkpoints that the state file does not list.",
)
@click.option("-n", "--dry-run", is_flag=True, help="Print what would go, and delete nothing.")
@click.option("-f", "--force", is_flag=True, help="Delete; without it nothing is deleted.")
@options.format_options()
@options.pass_settings
def command(
    settings: options.Settings,
    folder: str,
    keep: int,
    keep_every: float | None,
    keep_every_steps: int | None,
    all: bool,
    dry_run: bool,
    force: bool,
    format: str,
) -> int:
    """Delete the checkpoints of a folder that a manager with these settings would delete.

    Those in the state file count, oldest first, and the state file is rewritten. Needs -n or -f.
    Never deletes the latest checkpoint, incomplete ones, .meta files, or anything outside FOLDER.
    """
    delete = force and not dry_run
    if delete:
        from ckpttool.cli.writing import end_cleanly  # a dry run writes nothing

        end_cleanly()
    found = sweep(
        folder,
        max_to_keep=keep,
        keep_checkpoint_every_n_hours=keep_every,
        keep_every_steps=keep_every_steps,
        unlisted=all,
        dry_run=not delete,
        on_wait=settings.tell,
    )
    write_sweep(found, format, sys.stdout, settings.terminal())
    sys.stdout.flush()
    for note in found.notes:
        settings.tell(note)
    settings.tell(f"{folder}: {sweep_line(found)}")
    if force or dry_run:
        return DONE
    settings.tell(
        "nothing was deleted: give -f to delete, or -n if this is all that you want to know"
    )
    return FAILED
