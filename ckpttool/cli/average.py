"""`ckpt average`: the mean of several checkpoints of one program."""

from __future__ import annotations

from typing import cast

import click

from ckpttool.api.average import average, averaging_misuse
from ckpttool.checkpoint.locate import locate
from ckpttool.cli import options
from ckpttool.cli.writing import (
    DRY_RUN,
    FOLLOW_LINKS,
    FORCE_OPTION,
    FORMATS,
    LOCK_TIMEOUT_OPTION,
    META_OPTION,
    UPDATE_STATE_OPTION,
    end_cleanly,
    tell_outcome,
)
from ckpttool.surgery.writing.companions import MetaMode

EXAMPLES = (
    ("ckpt average ckpts --last 3 -o out/mean-1", "The last checkpoints of a folder."),
    ("ckpt average ckpts/ckpt-8 ckpts/ckpt-10 -o out/mean-2", "Two checkpoints."),
    (
        "ckpt average ckpts/ckpt-8 ckpts/ckpt-10 --weights 1,3 -o out/mean-3",
        "The second counts three times as much.",
    ),
    ("ckpt average ckpts --last 3 -n", "Print what would be averaged."),
)


def _numbers(ctx: click.Context, param: click.Parameter, text: str | None) -> tuple[float, ...]:
    """Return numbers that have commas between them."""
    try:
        return tuple(map(float, text.split(","))) if text is not None else ()
    except ValueError as error:
        raise click.BadParameter(f"'{text}' is not numbers with commas between them") from error


@options.command("average", examples=EXAMPLES)
@options.path_argument("sources", metavar="SRC...", nargs=-1)
@click.option(
    "--last",
    metavar="N",
    type=click.IntRange(min=2),
    help="Average the last N checkpoints of the folder SRC.",
)
@click.option(
    "--weights",
    metavar="W,W...",
    callback=_numbers,
    help="How much each source counts (default: all the same).",
)
@click.option(
    "-o", "--output", metavar="DST", type=click.Path(), help="Prefix of a new checkpoint."
)
@click.option("-n", "--dry-run", is_flag=True, help=DRY_RUN)
@FORCE_OPTION
@UPDATE_STATE_OPTION
@META_OPTION
@FOLLOW_LINKS
@LOCK_TIMEOUT_OPTION
@options.keys_option
@options.format_options(*FORMATS)
@options.pass_settings
def command(
    settings: options.Settings,
    sources: tuple[str, ...],
    last: int | None,
    weights: tuple[float, ...],
    output: str | None,
    dry_run: bool,
    force: bool,
    update_state: bool,
    meta: str,
    follow_links: bool,
    lock_timeout: float,
    by_key: bool,
    format: str,
) -> None:
    """Write the mean of the weights of several checkpoints.

    Floating-point weights are summed in float64 and rounded once, to nearest even. Everything else
    is that of the last source: step, optimizer, object graph.
    """
    misuse = averaging_misuse(len(sources), last, output is not None, dry_run)
    options.refuse_misuse(misuse, destination="-o DST", last="--last N")
    if not dry_run:
        end_cleanly()
    if last is None:
        for source in sources:
            settings.report(locate(source))
    with settings.progress("averaging") as bar:
        outcome = average(
            sources,
            output,
            last=last,
            weights=weights,
            dry_run=dry_run,
            force=force,
            update_state=update_state,
            meta=cast("MetaMode", meta),
            follow_links=follow_links,
            lock_timeout=lock_timeout,
            on_wait=settings.tell,
            on_progress=bar,
        )
    tell_outcome(settings, outcome, format, by_key=by_key)
