"""`ckpt prune`: a checkpoint without some of its tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ckpttool.api.prune import prune
from ckpttool.checkpoint.locate import locate
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.cli import options
from ckpttool.cli.writing import FORMATS, Destination, carry_out, write_options

if TYPE_CHECKING:
    from ckpttool.api.outcome import Outcome
    from ckpttool.surgery.writing.write import Writing

EXAMPLES = (
    ("ckpt prune ckpts --optimizer -o out/ckpt-1", "No optimizer state."),
    ("ckpt prune ckpts --slots -o out/ckpt-2 --compact", "No slots, and no room taken by them."),
    ("ckpt prune ckpts --weights-only -o out/ckpt-3 -n", "Print what would go."),
    ("ckpt prune ckpts --drop iterator -o out/ckpt-4", "What a pattern selects goes."),
    ("ckpt prune ckpts --keep 'net/**' -o out/ckpt-5", "What no pattern selects goes."),
)


@options.command("prune", examples=EXAMPLES)
@options.path_argument("source", metavar="SRC")
@click.option(
    "--drop",
    metavar="PATTERN",
    multiple=True,
    type=options.TensorName(),
    help="Drop what this pattern selects.",
)
@click.option(
    "--keep",
    metavar="PATTERN",
    multiple=True,
    type=options.TensorName(),
    help="Keep it in any case; alone, drop all else.",
)
@click.option("--slots", is_flag=True, help="Drop the slot variables of optimizers.")
@click.option("--optimizer", is_flag=True, help="Drop all state of optimizers, slots too.")
@click.option("--weights-only", is_flag=True, help="Drop all but weights.")
@write_options
@options.format_options(*FORMATS)
@options.pass_settings
def command(
    settings: options.Settings,
    source: str,
    drop: tuple[str, ...],
    keep: tuple[str, ...],
    slots: bool,
    optimizer: bool,
    weights_only: bool,
    destination: Destination,
    format: str,
) -> None:
    """Drop tensors; TensorFlow restores what is left without complaint.

    In an object-based checkpoint the object graph follows. Data shards are carried over whole,
    by link where that is possible; with --compact they are rewritten without what was dropped.
    """
    if not (drop or keep or slots or optimizer or weights_only):
        raise click.UsageError("nothing says what to drop")
    location = locate(source, within=destination.in_place)
    settings.report(location)
    with Checkpoint(location) as ckpt:

        def pruned(how: Writing) -> Outcome:
            return prune(
                ckpt,
                destination.prefix,
                drop=drop,
                keep=keep,
                slots=slots,
                optimizer=optimizer,
                weights_only=weights_only,
                **how,
            )

        carry_out(settings, destination, format, pruned)
