"""`ckpt ls`: the tensors of a checkpoint, from its index."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING, cast

import click

from ckpttool.checkpoint.locate import NO_VARIABLES, Location, graph_file_of, locate
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.checkpoint.selection.select import Selector
from ckpttool.cli import options
from ckpttool.cli.failures import complain
from ckpttool.errors import MissingFileError
from ckpttool.query.folder import list_folder
from ckpttool.query.grouping import by_scope, fold_numbers, sorted_sums
from ckpttool.query.listing import SORT_ORDERS, list_tensors
from ckpttool.render import listing as render
from ckpttool.render.drawing.write import DRAWING_FORMATS, PICTURES

if TYPE_CHECKING:
    from ckpttool.query.folder import CheckpointRow
    from ckpttool.query.listing import Listing
    from ckpttool.render.drawing.write import DrawingFormat
    from ckpttool.render.table import RowFormat

_MOST_NAMED = 20  # damaged tensors
EXAMPLES = (
    ("ckpt ls ckpts", "The latest checkpoint in a folder."),
    ("ckpt ls -d ckpts", "All checkpoints in a folder."),
    ("ckpt ls ckpts/ckpt-10 'net/**' --kind weight", "The weights below a scope."),
    ("ckpt ls ckpts --sort bytes --limit 10", "The ten largest tensors."),
    ("ckpt ls ckpts --tree --depth 2", "The objects of a TF2 checkpoint, two levels deep."),
    ("ckpt ls ckpts --format svg > ckpts.svg", "A picture of the objects."),
    ("ckpt ls ckpts --json", "Everything in the index, for programs."),
)


@options.command("ls", examples=EXAMPLES)
@options.path_argument()
@options.selection_options
@click.option("-d", "--checkpoints", is_flag=True, help="List the checkpoints in a folder.")
@click.option("-l", "--long", is_flag=True, help="Add shard, offset, crc32c and slices.")
@click.option(
    "--sort",
    type=click.Choice(SORT_ORDERS),
    default="key",
    help="Row order (default: key).",
)
@click.option("--limit", metavar="N", type=click.IntRange(0), help="Print at most N rows.")
@click.option("--tree", is_flag=True, help="Draw the object graph (or the scopes) as a tree.")
@click.option(
    "--depth",
    metavar="N",
    type=click.IntRange(1),
    help="Subtotals by scopes of N segments; with --tree, draw N levels.",
)
@click.option("--collapse", is_flag=True, help="Fold numbered layers into one row.")
@click.option(
    "--object-paths/--keys",
    "object_paths",
    default=None,
    help="Show object paths and variable names, or keys (default: paths). --keys reads only "
    "the index.",
)
@click.option(
    "-a", "--all", "everything", is_flag=True, help="In a picture, fold and leave out nothing."
)
@options.format_options(*options.OUTPUT_FORMATS, *PICTURES)
@options.pass_settings
def command(
    settings: options.Settings,
    path: str,
    selector: Selector,
    checkpoints: bool,
    long: bool,
    sort: str,
    limit: int | None,
    tree: bool,
    depth: int | None,
    collapse: bool,
    object_paths: bool | None,
    everything: bool,
    format: str,
) -> None:
    """List the tensors of a checkpoint: names, dtype, shape, kind and bytes.

    Reads only the index and the object graph, so any size is fast and data shards may be missing.
    PATTERN is a key, an object path, a variable name, a scope, a glob, =NAME, re:REGEX or @FILE;
    see ckpt-selection(7). The formats svg, dot and mermaid draw the objects, and so does markdown
    with --tree: layers that are alike are folded, and what was left out is said.
    """
    tree = tree or format in PICTURES
    picture = tree and format in DRAWING_FORMATS
    if checkpoints + tree + collapse > 1 or (depth is not None and (checkpoints or collapse)):
        raise click.UsageError("--checkpoints, --collapse and --tree or --depth cannot be combined")
    if tree and not picture and format not in ("table", "plain", "json"):
        raise click.UsageError(f"--tree prints as table, plain, json, {', '.join(DRAWING_FORMATS)}")
    if everything and not picture:
        raise click.UsageError("--all needs a picture: svg, dot, mermaid, or markdown with --tree")
    grouped = tree or collapse or depth is not None
    if (checkpoints or grouped) and (long or object_paths):
        raise click.UsageError("--long and --object-paths need a list of tensors")
    if (checkpoints or tree) and (sort != "key" or limit is not None):
        raise click.UsageError("--sort and --limit need a list of tensors")
    if checkpoints:
        if not selector.selects_all:
            raise click.UsageError("--checkpoints lists checkpoints; patterns select tensors")
        _list_checkpoints(settings, path, format)
        return
    location = locate(path)
    settings.report(location)
    with Checkpoint(location, index_only=object_paths is False) as ckpt:
        with settings.progress("listing"):
            listing = list_tensors(ckpt, selector, sort=sort, limit=None if grouped else limit)
            beside = _checkpoints_beside(location, format)
        _warn_of_missing(settings, listing)
        write = partial(
            render.write_listing,
            listing,
            format,
            sys.stdout,
            settings.terminal(),
            checkpoints=beside,
        )
        if picture:
            _draw(settings, ckpt, listing, depth, format, everything=everything)
        elif tree:
            from ckpttool.query.tree.build import build_tree

            write(tree=build_tree(ckpt, listing.rows, depth=depth))
        elif depth is not None:
            write(scopes=sorted_sums(by_scope(listing.rows, depth), sort)[:limit])
        elif collapse:
            write(folded=sorted_sums(fold_numbers(listing.rows), sort)[:limit])
        else:
            names_alone = format == "names" and not object_paths
            write(long=long, keys=names_alone or object_paths is False)
        _refuse_damage(listing)


def _warn_of_missing(settings: options.Settings, listing: Listing) -> None:
    missing = ", ".join(listing.source.missing_shards)
    if missing:
        settings.warn(
            f"data shards are missing: {missing}; listed from the index alone"
            if listing.source.generation == "V2"
            else f"files are missing: {missing}; what is in them alone is not listed"
        )


def _draw(
    settings: options.Settings,
    ckpt: Checkpoint,
    listing: Listing,
    depth: int | None,
    format: str,
    *,
    everything: bool,
) -> None:
    from ckpttool.query.drawing.build import build_drawing
    from ckpttool.render.drawing.labels import left_out
    from ckpttool.render.drawing.write import drawing_text

    drawing = build_drawing(ckpt, listing.rows, depth=depth, everything=everything)
    text, hint = drawing_text(drawing, cast("DrawingFormat", format))
    sys.stdout.write(text)
    for note in filter(None, (left_out(drawing), hint)):
        settings.tell(note)


def _refuse_damage(listing: Listing) -> None:
    """End with an error where tensors that were asked for could not be listed."""
    for each in listing.damaged[1:_MOST_NAMED]:
        complain(str(each.error))
    if listing.damaged:
        if len(listing.damaged) > _MOST_NAMED:
            complain(f"{len(listing.damaged) - _MOST_NAMED} more tensors are damaged")
        raise listing.damaged[0].error


def _checkpoints_beside(location: Location, format: str) -> list[CheckpointRow] | None:
    """Return the checkpoints that head the answer where a folder with a state file was typed."""
    if location.address != "state" or location.folder is None or format not in ("table", "json"):
        return None
    return list_folder(location.folder)


def _list_checkpoints(settings: options.Settings, path: str, format: str) -> None:
    folder = path
    if not os.path.isdir(path):
        location = locate(path)
        folder = location.folder or os.path.dirname(location.prefix) or os.curdir
    with settings.progress("listing"):
        rows = list_folder(folder)
    if not rows:
        bare = graph_file_of(folder) is not None
        found = NO_VARIABLES if bare else "no checkpoint in the folder or below it"
        raise MissingFileError(found, path=folder)
    if format == "json":
        render.write_folder_document(folder, rows, sys.stdout)
    else:
        shape = cast("RowFormat", format)
        render.write_checkpoints(rows, shape, sys.stdout, settings.terminal())
