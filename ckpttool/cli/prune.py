"""`ckpt prune`: a checkpoint without some of its tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypedDict

import click

from ckpttool.api.prune import NOTHING_TO_DROP, prune
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.cli import options
from ckpttool.cli.writing import FORMATS, Destination, carry_out, write_options

if TYPE_CHECKING:
    from ckpttool.api.outcome import Outcome, Outcomes
    from ckpttool.surgery.writing.write import Writing

EXAMPLES = (
    ("ckpt prune ckpts --optimizer -o out/ckpt-1", "Drop all optimizer state."),
    ("ckpt prune ckpts --slots -o out/ckpt-2 --compact", "Drop slots and free their space."),
    ("ckpt prune ckpts --weights-only -o out/ckpt-3 -n", "Print the plan only."),
    ("ckpt prune ckpts --all --slots -o slim", "Every checkpoint in a folder."),
    ("ckpt prune ckpts --drop iterator -o out/ckpt-4", "Drop what matches a pattern."),
    ("ckpt prune ckpts --kind slot,iterator -o out/ckpt-6", "Drop some kinds of tensors."),
    (
        "ckpt prune ckpts --keep 'net/**' -o out/ckpt-5",
        "Drop everything but what matches a pattern.",
    ),
)


@options.command("prune", examples=EXAMPLES)
@options.path_argument("source", metavar="SRC")
@click.option(
    "--drop",
    metavar="PATTERN",
    multiple=True,
    type=options.TensorName(),
    help="Drop matching tensors.",
)
@click.option(
    "--keep",
    metavar="PATTERN",
    multiple=True,
    type=options.TensorName(),
    help="Keep matching tensors whatever else is dropped; alone, drop all others.",
)
@click.option("--slots", is_flag=True, help="Drop optimizer slot variables.")
@click.option("--optimizer", is_flag=True, help="Drop all optimizer state, slots included.")
@click.option("--weights-only", is_flag=True, help="Drop everything but weights.")
@options.kind_option("Drop only tensors of these kinds; without --drop, all of them")
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
    kind: tuple[str, ...],
    destination: Destination,
    format: str,
) -> None:
    """Drop tensors, such as optimizer state; TensorFlow restores the rest.

    The object graph of an object-based checkpoint is updated. Data shards are linked where
    possible, else copied; --compact rewrites them without the dropped tensors, and may stand alone.
    """
    kinds = options.kinds_of(kind)
    dropping = drop or keep or slots or optimizer or weights_only or kinds
    if not (dropping or destination.how["compact"]):
        options.refuse_misuse(NOTHING_TO_DROP, kinds="--kind")
    what: _Patterns = {
        "drop": drop,
        "keep": keep,
        "slots": slots,
        "optimizer": optimizer,
        "weights_only": weights_only,
        "kinds": tuple(kinds),
    }

    def one(ckpt: Checkpoint, how: Writing) -> Outcome:
        return prune(ckpt, destination.prefix, **what, **how)

    def each(how: Writing, tell: Callable[[Outcome], None]) -> Outcomes:
        return prune(source, destination.prefix, all=True, on_done=tell, **what, **how)

    carry_out(settings, source, destination, format, one, each)


class _Patterns(TypedDict):
    drop: tuple[str, ...]
    keep: tuple[str, ...]
    slots: bool
    optimizer: bool
    weights_only: bool
    kinds: tuple[str, ...]
