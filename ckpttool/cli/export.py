"""`ckpt export`: tensors as safetensors, npz and npy files."""

from __future__ import annotations

import sys
from typing import cast

import click

from ckpttool.api.export import (
    EXPORT_FORMS,
    STRING_FORMS,
    ExportForm,
    StringForm,
    export,
    exporting_misuse,
    mapping_misuse,
)
from ckpttool.checkpoint.locate import locate
from ckpttool.checkpoint.nearest import require_one_of
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.checkpoint.selection.select import Selector
from ckpttool.cli import options
from ckpttool.cli.writing import (
    ACCEPT_ORDER_OPTION,
    CASTS_OPTION,
    DRY_RUN,
    FORMATS,
    LOCK_TIMEOUT_OPTION,
    MAX_SHARD_SIZE_OPTION,
    SATURATE_OPTION,
    WRITE_MAP_OPTION,
    end_cleanly,
)
from ckpttool.surgery.edits.casting import parse_cast
from ckpttool.surgery.exporting.choice import NAMINGS, Naming
from ckpttool.surgery.maps.torch_draft import DRAFT_TABLES

EXAMPLES = (
    ("ckpt export ckpts -o model.safetensors", "All weights of the latest checkpoint."),
    ("ckpt export ckpts 'net/**/kernel' -o kernels.npz", "Some of them, for NumPy."),
    ("ckpt export ckpts net/l1/kernel -o kernel.npy", "One tensor."),
    (
        "ckpt export ckpts --all-kinds --skip-unsupported -o all.safetensors -n",
        "What everything would be called.",
    ),
    ("ckpt export keras --names variable -o keras.safetensors", "Under the names of variables."),
    (
        "ckpt export ckpts --max-shard-size 5GB -o big/model.safetensors",
        "In several files with an index.",
    ),
)
_STDOUT = "-"


def _pairs(metadata: tuple[str, ...]) -> dict[str, str]:
    """Return text by name from the values of --metadata."""
    pairs = {}
    for each in metadata:
        name, equals, text = each.partition("=")
        if not (equals and name):
            raise click.UsageError(f"--metadata: '{each}' is not of the form NAME=TEXT")
        pairs[name] = text
    return pairs


@options.command("export", examples=EXAMPLES)
@options.path_argument("source", metavar="SRC")
@options.selection_options
@click.option("--all-kinds", is_flag=True, help="Export tensors of every kind, not only weights.")
@click.option(
    "-o",
    "--output",
    metavar="OUT",
    type=click.Path(),
    help="The file to write; - is stdout, and needs --to.",
)
@click.option(
    "--to",
    type=click.Choice(EXPORT_FORMS),
    help="Format (default: from the ending of OUT).",
)
@click.option(
    "--names",
    type=click.Choice(NAMINGS),
    default="path",
    help="Names in the file: object paths (or keys), variable names, or keys.",
)
@click.option(
    "--map",
    metavar="FILE",
    type=click.Path(),
    multiple=True,
    help="Give tensors the names and layouts of a map (- for stdin).",
)
@click.option(
    "--skip-unmatched",
    is_flag=True,
    help="Leave out tensors that the map or table has no line for.",
)
@click.option(
    "--table",
    metavar="NAME",
    multiple=True,
    help="Draft a map for review; NAME is torch. Needs --write-map and --dry-run.",
)
@WRITE_MAP_OPTION
@click.option(
    "--like",
    metavar="REFERENCE",
    type=click.Path(),
    help="A .weights.h5 file that the Keras program has saved; OUT becomes another.",
)
@ACCEPT_ORDER_OPTION
@CASTS_OPTION
@SATURATE_OPTION
@click.option(
    "--strings",
    type=click.Choice(STRING_FORMS),
    help="Write string tensors too, as bytes of one width (npz, npy).",
)
@click.option(
    "--skip-unsupported", is_flag=True, help="Leave out tensors that the format cannot hold."
)
@click.option(
    "--metadata",
    metavar="NAME=TEXT",
    multiple=True,
    help="Text for the header of a safetensors file.",
)
@MAX_SHARD_SIZE_OPTION
@click.option("-n", "--dry-run", is_flag=True, help=DRY_RUN)
@click.option("--force", is_flag=True, help="Replace what exists at OUT.")
@LOCK_TIMEOUT_OPTION
@options.keys_option
@options.format_options(*FORMATS)
@options.pass_settings
def command(
    settings: options.Settings,
    source: str,
    selector: Selector,
    all_kinds: bool,
    output: str | None,
    to: str | None,
    names: str,
    map: tuple[str, ...],
    skip_unmatched: bool,
    table: tuple[str, ...],
    write_map: str | None,
    like: str | None,
    accept_order: bool,
    casts: tuple[str, ...],
    saturate: bool,
    strings: str | None,
    skip_unsupported: bool,
    metadata: tuple[str, ...],
    max_shard_size: int | None,
    dry_run: bool,
    force: bool,
    lock_timeout: float,
    by_key: bool,
    format: str,
) -> None:
    """Write tensors to a safetensors, npz or npy file.

    Only weights are exported unless --kind or --all-kinds says otherwise. Every byte is checked
    against its crc32c on the way, and a damaged tensor leaves no file. Tensors that the format
    cannot hold are an error that names all of them.
    """
    streamed = output == _STDOUT
    misuse = exporting_misuse(
        to,
        None if streamed else output,
        streamed=streamed,
        dry_run=dry_run,
        kinds=bool(selector.kinds),
        all_kinds=all_kinds,
        strings=strings is not None,
        metadata=bool(metadata),
        sharded=max_shard_size is not None,
        saturate=saturate and not casts,
        like=like is not None,
        accept_order=accept_order,
    )
    misuse = misuse or mapping_misuse(
        mapped=bool(map),
        renamed=names != "path",
        skip_unmatched=skip_unmatched,
        drafted=bool(table),
        paired=like is not None,
        kept=write_map is not None,
        dry_run=dry_run,
    )
    options.refuse_misuse(misuse, output="-o OUT", kinds="--kind")
    for each in table:
        require_one_of("--table", each, DRAFT_TABLES)
    if streamed and not dry_run:
        if settings.terminal().interactive:
            raise click.UsageError("will not print bytes on a terminal; use -o FILE")
        if format == "json":
            raise click.UsageError("stdout cannot have the tensors and JSON")
    if not dry_run:
        end_cleanly()
    location = locate(source)
    settings.report(location)
    with Checkpoint(location) as ckpt, settings.progress("exporting") as bar:
        done = export(
            ckpt,
            sys.stdout.buffer if streamed else output,
            selector,
            all_kinds=all_kinds,
            to=cast("ExportForm | None", to),
            names=cast("Naming", names),
            map=map,
            skip_unmatched=skip_unmatched,
            table="torch" if table else None,
            write_map=sys.stdout if write_map == _STDOUT else write_map,
            like=like,
            accept_order=accept_order,
            cast=dict(parse_cast(each) for each in casts),
            saturate=saturate,
            strings=cast("StringForm | None", strings),
            skip_unsupported=skip_unsupported,
            metadata=_pairs(metadata) or None,
            max_shard_size=max_shard_size,
            force=force,
            dry_run=dry_run,
            lock_timeout=lock_timeout,
            on_wait=settings.tell,
            on_progress=bar,
        )
        bar.clear()
        # People who let it write want to know that it did; -v and all other forms have each tensor.
        if (
            write_map != _STDOUT
            and not (streamed and not dry_run)
            and (dry_run or format != "table" or settings.verbosity > 0)
        ):
            done.write_tensors(format, sys.stdout, settings.terminal(), by_key=by_key)
    sys.stdout.flush()
    for note in done.notes:
        settings.tell(note)
    settings.tell(done.summary)
