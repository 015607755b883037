"""What the commands that write checkpoints share: their options, and how they end."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from ckpttool.cli import options
from ckpttool.cli.failures import Terminated
from ckpttool.surgery.writing.carry import DATA_MODES
from ckpttool.surgery.writing.companions import META_MODES
from ckpttool.surgery.writing.destination import destination_prefix, unused_place
from ckpttool.surgery.writing.prepare import LOCK_TIMEOUT, Patience, WriteOptions, prepare

if TYPE_CHECKING:
    from ckpttool.surgery.plan import Plan

F = TypeVar("F", bound=Callable[..., Any])
DRY_RUN = "Print the plan; write nothing, so it need not be said where."
FORMATS = ("table", "plain", "json", "jsonl", "csv", "markdown", "names")
FOLLOW_LINKS = click.option(
    "--follow-links",
    is_flag=True,
    help="Carry data shards along that are links out of the checkpoint's folder.",
)
LOCK_TIMEOUT_OPTION = click.option(
    "--lock-timeout",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=LOCK_TIMEOUT,
    help="How long to wait for another ckpt that writes there; 60 unless given.",
)


class Destination:
    """Where and how a plan is to be written, as the options say.

    Attributes:
        prefix: of a new checkpoint; None to write in place, or nowhere.
        options: how.
        dry_run: whether to write nothing.
        in_place: whether to change the checkpoint itself.
    """

    def __init__(
        self, prefix: str | None, write_options: WriteOptions, *, dry_run: bool, in_place: bool
    ) -> None:
        self.prefix = prefix
        self.options = write_options
        self.dry_run = dry_run
        self.in_place = in_place


def write_options(function: F) -> F:
    """Add the options that say where and how to write; the function gets a `destination`."""

    @wraps(function)
    def with_destination(
        *args: Any,
        output: str | None,
        in_place: bool,
        data: Any,
        compact: bool,
        force: bool,
        update_state: bool,
        meta: Any,
        follow_links: bool,
        lock_timeout: float,
        dry_run: bool,
        **kwargs: Any,
    ) -> Any:
        if (output is None) != in_place and (in_place or not dry_run):
            raise click.UsageError("either -o DST or --in-place says where to write")
        if in_place and (force or data != "auto"):
            raise click.UsageError("--force and --data go with -o")
        prefix = destination_prefix(output) if output is not None else None
        patience = Patience(lock_timeout)
        how = WriteOptions(data, compact, force, update_state, meta, follow_links, patience)
        destination = Destination(prefix, how, dry_run=dry_run, in_place=in_place)
        return function(*args, destination=destination, **kwargs)

    decorators = (
        click.option(
            "-o", "--output", metavar="DST", type=click.Path(), help="Prefix of a new checkpoint."
        ),
        click.option("--in-place", is_flag=True, help="Change the checkpoint itself."),
        click.option("-n", "--dry-run", is_flag=True, help=DRY_RUN),
        click.option(
            "--data",
            type=click.Choice(DATA_MODES),
            default="auto",
            help="How data shards get there: auto takes the first of the others that works.",
        ),
        click.option("--compact", is_flag=True, help="Rewrite data shards without dead bytes."),
        click.option("--force", is_flag=True, help="Replace a checkpoint at DST."),
        click.option(
            "--update-state", is_flag=True, help="Make it the latest in its folder's state file."
        ),
        click.option(
            "--meta",
            type=click.Choice(META_MODES),
            default="auto",
            help="The .meta file: auto copies it where no key changed.",
        ),
        FOLLOW_LINKS,
        LOCK_TIMEOUT_OPTION,
    )
    decorated: Any = with_destination
    for decorator in reversed(decorators):
        decorated = decorator(decorated)
    return decorated  # type: ignore[no-any-return]


def carry_out(
    settings: options.Settings, plan: Plan, destination: Destination, name: str, format: str
) -> None:
    """Write a plan, or only print it, and tell what came of it.

    Args:
        settings: of this run.
        plan: what to write.
        destination: where and how.
        name: of the command, for the JSON schema.
        format: how to print the changes.
    """
    from ckpttool.query.source import Source
    from ckpttool.render.progress import ProgressBar
    from ckpttool.render.surgery import summary_line, write_changes

    how = destination.options
    how = replace(how, patience=replace(how.patience, tell=settings.tell))
    prefix = plan.source.prefix if destination.in_place else destination.prefix
    source = Source.of(plan.source)  # beforehand: in place there is no such checkpoint afterwards
    place = None if destination.in_place else prefix
    if prefix is None:
        place = unused_place(plan.source.prefix)
    prepared = prepare(plan, place, how)
    if destination.dry_run:
        receipt = prepared.receipt()
    else:
        end_cleanly()
        with ProgressBar("copying", sys.stderr, settings.terminal(sys.stderr)) as on_progress:
            receipt = prepared.write(on_progress=on_progress)
    done = None if destination.dry_run else receipt
    write_changes(plan, done, source, prefix, name, format, sys.stdout, settings.terminal())
    sys.stdout.flush()
    for note in receipt.notes:
        settings.tell(note)
    settings.tell(summary_line(plan, done, prefix))


def end_cleanly() -> None:
    """Let a request to terminate remove what was staged, as an interrupt from the keyboard does."""

    def terminate(number: int, frame: FrameType | None) -> NoReturn:
        raise Terminated(number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, terminate)
