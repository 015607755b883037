"""`ckpt convert-legacy`: checkpoints and exports of old forms in those of today."""

from __future__ import annotations

import sys
from typing import cast

import click

from ckpttool.api.convert_legacy import (
    NO_DESTINATION,
    OF_CHECKPOINTS,
    Converted,
    conversion_misuse,
    convert_legacy,
    is_export,
)
from ckpttool.cli import options
from ckpttool.cli.writing import (
    DRY_RUN,
    FOLLOW_LINKS,
    FORMATS,
    LIKE_OPTION,
    LOCK_TIMEOUT_OPTION,
    MAX_SHARD_SIZE_OPTION,
    UPDATE_STATE_OPTION,
    end_cleanly,
)
from ckpttool.surgery.convert import TARGET_FORMS, TargetForm
from ckpttool.surgery.maps.reading import read_map
from ckpttool.surgery.rules import RenameRule
from ckpttool.surgery.tables import load_table
from ckpttool.surgery.writing.companions import META_MODES, MetaMode

EXAMPLES = (
    ("ckpt convert-legacy old.ckpt-7 -o out/model.ckpt-7", "A V1 checkpoint as V2."),
    ("ckpt convert-legacy runs -o runs-v2", "Every checkpoint in a folder, and its state file."),
    ("ckpt convert-legacy exports -o models", "Every version of an export as a SavedModel."),
    (
        "ckpt convert-legacy trained.ckpt-9 --like ckpts -o out/ckpt-1",
        "Variables of TensorFlow 1 as objects of a TF2 program.",
    ),
    (
        "ckpt convert-legacy ckpts/ckpt-10 --like fresh -o out/ckpt-10",
        "A legacy optimizer's slots for the new one.",
    ),
    (
        "ckpt convert-legacy ckpts/ckpt-8 --to name-based -o out/names",
        "Objects of a TF2 program as names of TensorFlow 1.",
    ),
    (
        "ckpt convert-legacy model.ckpt-3 --to v1 -o out/old.ckpt",
        "A V2 checkpoint as V1, for old programs.",
    ),
)


@options.command("convert-legacy", examples=EXAMPLES)
@options.path_argument("source", metavar="SRC")
@click.option(
    "-o",
    "--output",
    metavar="DST",
    type=click.Path(),
    help="Prefix of the new checkpoint; a folder if SRC is a folder or an export.",
)
@click.option(
    "--to",
    type=click.Choice(TARGET_FORMS),
    help="Target form (default: v2; of an export, a SavedModel).",
)
@LIKE_OPTION
@click.option(
    "--strict", is_flag=True, help="Fail if anything of SRC or REFERENCE would be left out."
)
@click.option(
    "--by-order",
    is_flag=True,
    help="With --like, pair what several places would fit in the order of both programs.",
)
@click.option(
    "--fill", is_flag=True, help="With --like, keep REFERENCE's values where SRC has none."
)
@click.option(
    "--map",
    "maps",
    metavar="FILE",
    multiple=True,
    type=click.Path(),
    help="Rename first, as `ckpt rename --map`; with --like, to names of REFERENCE.",
)
@click.option(
    "--table",
    "tables",
    metavar="NAME",
    multiple=True,
    help="Rename first by a built-in table, as `ckpt rename --table`.",
)
@click.option("--join-slices", is_flag=True, help="Join the slices of partitioned tensors.")
@click.option("--shards", metavar="N", type=click.IntRange(1, 512), help="Write N data shards.")
@MAX_SHARD_SIZE_OPTION
@click.option("-n", "--dry-run", is_flag=True, help=DRY_RUN)
@click.option("--force", is_flag=True, help="Replace what exists at DST; accept missing assets.")
@UPDATE_STATE_OPTION
@click.option(
    "--meta",
    type=click.Choice(META_MODES),
    default="auto",
    help="The .meta file; auto copies it with an updated Saver if no key changed.",
)
@FOLLOW_LINKS
@LOCK_TIMEOUT_OPTION
@options.keys_option
@options.format_options(*FORMATS)
@options.pass_settings
def command(
    settings: options.Settings,
    source: str,
    output: str | None,
    to: str | None,
    like: str | None,
    strict: bool,
    by_order: bool,
    fill: bool,
    maps: tuple[str, ...],
    tables: tuple[str, ...],
    join_slices: bool,
    shards: int | None,
    max_shard_size: int | None,
    dry_run: bool,
    force: bool,
    update_state: bool,
    meta: str,
    follow_links: bool,
    lock_timeout: float,
    by_key: bool,
    format: str,
) -> None:
    """Convert old checkpoints and exports to today's formats.

    V1 checkpoints, big-endian ones and old string tensors become V2 as TensorFlow writes it today;
    a SessionBundle export becomes a SavedModel; with --like, a checkpoint gets the
    objects of another program. A folder means every checkpoint in it.
    """
    if output is None and not dry_run:
        options.refuse_misuse(NO_DESTINATION, destination="-o DST")
    both = shards is not None and max_shard_size is not None
    options.refuse_misuse(
        conversion_misuse(
            to, both=both, like=like is not None, strict=strict, by_order=by_order, fill=fill
        )
    )
    given = {"map": maps, "table": tables}
    rules: list[RenameRule] = []
    for name, text in options.in_order(click.get_current_context(), given):
        rules += read_map(text) if name == "map" else [load_table(text)]
    of_checkpoints = like or rules or join_slices or shards or max_shard_size
    if to is None and is_export(source) and (of_checkpoints or update_state or meta != "auto"):
        options.refuse_misuse(OF_CHECKPOINTS)
    if not dry_run:
        end_cleanly()
    with settings.progress("converting") as bar:

        def tell(done: Converted) -> None:
            bar.clear()
            if done.location is not None:
                settings.report(done.location)
            for line in (*done.notes, done.summary):
                settings.tell(line)

        outcome = convert_legacy(
            source,
            output,
            to=cast("TargetForm | None", to),
            like=like,
            strict=strict,
            by_order=by_order,
            fill=fill,
            rules=rules,
            join_slices=join_slices,
            shards=shards,
            max_shard_size=max_shard_size,
            dry_run=dry_run,
            force=force,
            update_state=update_state,
            meta=cast("MetaMode", meta),
            follow_links=follow_links,
            lock_timeout=lock_timeout,
            on_wait=settings.tell,
            on_progress=bar,
            on_done=tell,
        )
    for note in outcome.notes:
        settings.tell(note)
    outcome.write_changes(
        format, sys.stdout, settings.terminal(), everything=settings.verbosity > 0, by_key=by_key
    )
