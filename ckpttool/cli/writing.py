"""What the commands that write checkpoints share: their options, and how they end."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import wraps
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from ckpttool.api.outcome import Outcome, Outcomes
from ckpttool.checkpoint.locate import locate
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.cli import options
from ckpttool.cli.failures import Terminated
from ckpttool.storage.locks import LOCK_TIMEOUT
from ckpttool.surgery.writing.bundle.carry import DATA_MODES
from ckpttool.surgery.writing.companions import META_MODES
from ckpttool.surgery.writing.write import write_misuse

if TYPE_CHECKING:
    from ckpttool.surgery.writing.write import Writing

F = TypeVar("F", bound=Callable[..., Any])
DRY_RUN = "Print the plan and write nothing; no destination is needed."
FORMATS = ("table", "plain", "json", "jsonl", "csv", "markdown", "names")
FOLLOW_LINKS = click.option(
    "--follow-links",
    is_flag=True,
    help="Accept data shards that are links to files outside the checkpoint's folder.",
)
FORCE_OPTION = click.option("--force", is_flag=True, help="Replace an existing checkpoint at DST.")
UPDATE_STATE_OPTION = click.option(
    "--update-state",
    is_flag=True,
    help="Record the result as the latest in the folder's state file.",
)
LIKE_OPTION = click.option(
    "--like",
    metavar="REFERENCE",
    type=options.CheckpointPath(),
    help="Give it the objects of this checkpoint, of the program to load it.",
)
ACCEPT_ORDER_OPTION = click.option(
    "--accept-order",
    is_flag=True,
    help="With --like, pair layers of the same shapes by their order.",
)
WRITE_MAP_OPTION = click.option(
    "--write-map",
    metavar="FILE",
    type=click.Path(),
    help="Where the draft goes (- for stdout).",
)
CASTS_OPTION = click.option(
    "--cast",
    "casts",
    metavar="PATTERN=DTYPE",
    multiple=True,
    help="Store matching tensors in another dtype, rounded to nearest even.",
)
SATURATE_OPTION = click.option(
    "--saturate",
    is_flag=True,
    help="With --cast, make what is out of range the nearest number that the dtype has.",
)
MAX_SHARD_SIZE_OPTION = click.option(
    "--max-shard-size",
    metavar="SIZE",
    type=options.ByteSize(),
    help="Start a new file at this size, e.g. 2GiB.",
)
META_OPTION = click.option(
    "--meta",
    type=click.Choice(META_MODES),
    default="auto",
    help="The .meta file; auto copies it if no key changed.",
)
LOCK_TIMEOUT_OPTION = click.option(
    "--lock-timeout",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=LOCK_TIMEOUT,
    help="Wait this long for another ckpt that writes to DST (default: 60).",
)


@dataclass(frozen=True, slots=True)
class Destination:
    """Where and how a checkpoint is to be written, as the options say.

    Attributes:
        prefix: of a new checkpoint; None to write in place, or nowhere.
        how: the other arguments of `surgery.write`.
        all: whether every checkpoint of a folder is meant, and `prefix` is a folder.
        by_key: whether the answer shows keys instead of object paths and variable names.
    """

    prefix: str | None
    how: Writing
    all: bool
    by_key: bool

    @property
    def in_place(self) -> bool:
        """Whether to change the checkpoint itself."""
        return self.how["in_place"]


def write_options(function: F) -> F:
    """Add the options that say where and how to write; the function gets a `destination`.

    With them every checkpoint of a folder can be written.
    """
    every = click.option(
        "-a",
        "--all",
        is_flag=True,
        help="Change every checkpoint in the folder SRC, each by itself.",
    )
    return _with_options(function, "Prefix of a new checkpoint; with --all, a folder.", (every,))


def single_write_options(function: F) -> F:
    """Add the options of `write_options` for one checkpoint."""
    return _with_options(function, "Prefix of a new checkpoint.", ())


def _with_options(function: F, output_help: str, of_folders: tuple[Callable[[Any], Any], ...]) -> F:
    """Add the options of `write_options`; `of_folders` are those of folders."""

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
        by_key: bool,
        all: bool = False,
        **kwargs: Any,
    ) -> Any:
        how: Writing = {
            "in_place": in_place,
            "dry_run": dry_run,
            "data": data,
            "compact": compact,
            "force": force,
            "update_state": update_state,
            "meta": meta,
            "follow_links": follow_links,
            "lock_timeout": lock_timeout,
        }
        options.refuse_misuse(write_misuse(output, how), destination="-o DST")
        destination = Destination(output, how, all, by_key)
        return function(*args, destination=destination, **kwargs)

    decorators = (
        click.option(
            "-o",
            "--output",
            metavar="DST",
            type=click.Path(),
            help=output_help,
        ),
        *of_folders,
        click.option("--in-place", is_flag=True, help="Replace SRC itself."),
        click.option("-n", "--dry-run", is_flag=True, help=DRY_RUN),
        click.option(
            "--data",
            type=click.Choice(DATA_MODES),
            default="auto",
            help="How to carry data shards over; auto tries reflink, hardlink, copy.",
        ),
        click.option("--compact", is_flag=True, help="Rewrite data shards without unused bytes."),
        FORCE_OPTION,
        UPDATE_STATE_OPTION,
        META_OPTION,
        FOLLOW_LINKS,
        LOCK_TIMEOUT_OPTION,
        options.keys_option,
    )
    decorated: Any = with_destination
    for decorator in reversed(decorators):
        decorated = decorator(decorated)
    return decorated  # type: ignore[no-any-return]


def carry_out(
    settings: options.Settings,
    source: str,
    destination: Destination,
    format: str,
    one: Callable[[Checkpoint, Writing], Outcome],
    each: Callable[[Writing, Callable[[Outcome], None]], Outcomes] | None = None,
) -> None:
    """Change a checkpoint or those of a folder, or only print how, and tell what came of it.

    Args:
        settings: of this run.
        source: what was typed.
        destination: where and how to write.
        format: how to print the changes.
        one: the twin of the command for one checkpoint.
        each: the same for a folder, where there is --all; it gets what tells of each checkpoint.
    """
    if not destination.how["dry_run"]:
        end_cleanly()
    with ExitStack() as stack:
        ckpt = None
        if not destination.all:
            location = locate(source, within=destination.in_place)
            settings.report(location)
            ckpt = stack.enter_context(Checkpoint(location))
        bar = stack.enter_context(settings.progress("writing"))

        def tell(outcome: Outcome) -> None:
            bar.clear()
            for line in (*outcome.notes, f"{outcome.source.prefix}: {outcome.summary}"):
                settings.tell(line)

        how: Writing = {**destination.how, "on_wait": settings.tell, "on_progress": bar}
        outcome: Outcome | Outcomes
        if ckpt is not None:
            outcome = one(ckpt, how)
        elif each is not None:
            outcome = each(how, tell)
        else:
            raise TypeError("this command writes no folder")
    tell_outcome(settings, outcome, format, by_key=destination.by_key)


def tell_outcome(
    settings: options.Settings, outcome: Outcome | Outcomes, format: str, *, by_key: bool
) -> None:
    """Write what became of tensors, and tell notes and a summary.

    Args:
        settings: of this run.
        outcome: what came of a command.
        format: how to print the changes.
        by_key: show keys instead of object paths and variable names.
    """
    outcome.write_changes(
        format,
        sys.stdout,
        settings.terminal(),
        everything=settings.verbosity > 0,
        by_key=by_key,
    )
    sys.stdout.flush()
    for note in outcome.notes:
        settings.tell(note)
    if isinstance(outcome, Outcome):
        settings.tell(outcome.summary)


def end_cleanly() -> None:
    """Let a request to terminate remove what was staged, as an interrupt from the keyboard does."""

    def terminate(number: int, frame: FrameType | None) -> NoReturn:
        raise Terminated(number)

    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, terminate)
