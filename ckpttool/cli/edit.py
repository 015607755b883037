"""`ckpt edit`: a checkpoint in which some tensors have other values."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ckpttool.api.edit import NOTHING_TO_EDIT, edit, parse_graft
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.cli import options
from ckpttool.cli.writing import (
    FORMATS,
    SATURATE_OPTION,
    Destination,
    carry_out,
    single_write_options,
)
from ckpttool.printable import printable
from ckpttool.surgery.edits.casting import parse_cast
from ckpttool.surgery.edits.setting import Given, TypedValue, parse_setting

if TYPE_CHECKING:
    from ckpttool.api.outcome import Outcome
    from ckpttool.surgery.writing.write import Writing

EXAMPLES = (
    ("ckpt edit ckpts --set optimizer/learning_rate=1e-4 -o out/ckpt-1", "Set a scalar."),
    ("ckpt edit ckpts --set net/l1/bias=0 -o out/ckpt-2", "Fill a tensor."),
    ("ckpt edit ckpts --set net/l1/kernel=ones.npy -o out/ckpt-3", "Elements from NumPy."),
    ("ckpt edit ckpts --cast 'net/**=bfloat16' -o out/ckpt-4", "Half the bytes."),
    (
        "ckpt edit ckpts --graft ckpts/ckpt-8:net=net -o out/ckpt-5",
        "Weights of another checkpoint.",
    ),
)
_NPY = ".npy"


def _once(option: str, pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return pairs as a mapping; each name may come once."""
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in found:
            raise click.UsageError(f"{option}: '{printable(name)}' is given twice")
        found[name] = value
    return found


@options.command("edit", examples=EXAMPLES)
@options.path_argument("source", metavar="SRC")
@click.option(
    "--set",
    metavar="NAME=VALUE",
    multiple=True,
    type=options.TensorName(),
    help="Set a tensor to a number, text, list of these, or the array in a .npy file.",
)
@click.option(
    "--cast",
    metavar="PATTERN=DTYPE",
    multiple=True,
    type=options.TensorName(),
    help="Store matching tensors in another dtype, rounded to nearest even.",
)
@SATURATE_OPTION
@click.option(
    "--graft",
    metavar="OTHER:SCOPE=SCOPE",
    multiple=True,
    help="Take the tensors below a scope of another checkpoint.",
)
@single_write_options
@options.format_options(*FORMATS)
@options.pass_settings
def command(
    settings: options.Settings,
    source: str,
    set: tuple[str, ...],
    cast: tuple[str, ...],
    saturate: bool,
    graft: tuple[str, ...],
    destination: Destination,
    format: str,
) -> None:
    """Give tensors other values: set, cast, or taken from another checkpoint.

    All edits apply to the original, in any order. Other tensors keep their bytes; data shards are
    linked where possible, else copied, and new values go to a data shard of their own.
    """
    if not (set or cast or graft):
        options.refuse_misuse(NOTHING_TO_EDIT)
    values: dict[str, Given] = {}
    for name, text in _once("--set", map(parse_setting, set)).items():
        values[name] = Path(text) if text.endswith(_NPY) else TypedValue(text)
    dtypes = _once("--cast", map(parse_cast, cast))
    grafts = [parse_graft(text) for text in graft]

    def one(ckpt: Checkpoint, how: Writing) -> Outcome:
        return edit(
            ckpt,
            destination.prefix,
            set=values,
            cast=dtypes,
            saturate=saturate,
            graft=grafts,
            **how,
        )

    carry_out(settings, source, destination, format, one)
