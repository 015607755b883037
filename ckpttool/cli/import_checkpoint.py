"""`ckpt import`: a checkpoint made of a safetensors, npz, npy or HDF5 file."""

from __future__ import annotations

import sys
from typing import cast

import click

from ckpttool.api.import_checkpoint import import_checkpoint, import_misuse, pairing_misuse
from ckpttool.cli import options
from ckpttool.cli.writing import (
    ACCEPT_ORDER_OPTION,
    CASTS_OPTION,
    DRY_RUN,
    FOLLOW_LINKS,
    FORCE_OPTION,
    FORMATS,
    LIKE_OPTION,
    LOCK_TIMEOUT_OPTION,
    SATURATE_OPTION,
    UPDATE_STATE_OPTION,
    WRITE_MAP_OPTION,
    end_cleanly,
)
from ckpttool.surgery.edits.casting import parse_cast
from ckpttool.surgery.writing.bundle.carry import DATA_MODES, DataMode

EXAMPLES = (
    ("ckpt import net.safetensors -o out/model.ckpt-1", "For tf.train.load_checkpoint."),
    (
        "ckpt import net.safetensors --like ckpts -o out/ckpt-1",
        "For the program that wrote the checkpoints in this folder.",
    ),
    ("ckpt import net.npz --cast '**=bfloat16' -o out/half-1", "From NumPy, in other dtypes."),
    ("ckpt import net.safetensors --like ckpts -n", "Where each tensor would go."),
)
_STDOUT = "-"


@options.command("import", examples=EXAMPLES)
@click.argument("source", metavar="IN", type=click.Path())
@click.option(
    "-o", "--output", metavar="DST", type=click.Path(), help="Prefix of the new checkpoint."
)
@LIKE_OPTION
@click.option(
    "--map",
    metavar="FILE",
    type=click.Path(),
    multiple=True,
    help="Undo names and layouts that `ckpt export --map` gave (- for stdin).",
)
@ACCEPT_ORDER_OPTION
@WRITE_MAP_OPTION
@CASTS_OPTION
@SATURATE_OPTION
@click.option(
    "--data",
    type=click.Choice(DATA_MODES),
    default="auto",
    help="How a safetensors file becomes a data shard; auto tries reflink, copy.",
)
@click.option(
    "--compact", is_flag=True, help="Store the tensors without the header of a safetensors file."
)
@click.option("-n", "--dry-run", is_flag=True, help=DRY_RUN)
@FORCE_OPTION
@UPDATE_STATE_OPTION
@FOLLOW_LINKS
@LOCK_TIMEOUT_OPTION
@options.keys_option
@options.format_options(*FORMATS)
@options.pass_settings
def command(
    settings: options.Settings,
    source: str,
    output: str | None,
    like: str | None,
    map: tuple[str, ...],
    accept_order: bool,
    write_map: str | None,
    casts: tuple[str, ...],
    saturate: bool,
    data: str,
    compact: bool,
    dry_run: bool,
    force: bool,
    update_state: bool,
    follow_links: bool,
    lock_timeout: float,
    by_key: bool,
    format: str,
) -> None:
    """Make a checkpoint of a safetensors, npz, npy or HDF5 file.

    IN may be the index of several safetensors files. A safetensors file becomes a data shard as it
    is, by a clone or a copy. The names in the file become keys; with --like, a tensor goes to the
    variable of REFERENCE that has its name, object path or key. Layers of a .weights.h5 file of
    Keras are paired with it by names and shapes.
    """
    misuse = import_misuse(
        output is not None,
        dry_run=dry_run,
        saturate=saturate and not casts,
        carried=data != "auto",
        compact=compact,
    )
    misuse = misuse or pairing_misuse(
        like=like is not None,
        mapped=bool(map),
        accept_order=accept_order,
        kept=write_map is not None,
        dry_run=dry_run,
    )
    options.refuse_misuse(misuse, destination="-o DST")
    if not dry_run:
        end_cleanly()
    with settings.progress("importing") as bar:
        done = import_checkpoint(
            source,
            output,
            like=like,
            map=map,
            accept_order=accept_order,
            write_map=sys.stdout if write_map == _STDOUT else write_map,
            cast=dict(parse_cast(each) for each in casts),
            saturate=saturate,
            data=cast("DataMode", data),
            compact=compact,
            dry_run=dry_run,
            force=force,
            update_state=update_state,
            follow_links=follow_links,
            lock_timeout=lock_timeout,
            on_wait=settings.tell,
            on_progress=bar,
        )
    if write_map != _STDOUT and (dry_run or format != "table" or settings.verbosity > 0):
        done.write_tensors(format, sys.stdout, settings.terminal(), by_key=by_key)
    sys.stdout.flush()
    for note in done.notes:
        settings.tell(note)
    settings.tell(done.summary)
