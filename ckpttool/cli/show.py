"""`ckpt show`: the values of tensors, or a checkpoint in short."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from ckpttool.checkpoint.locate import graph_file_of, is_graph_file, locate
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.checkpoint.selection.select import Selector
from ckpttool.cli import options
from ckpttool.errors import MissingFileError, NotFoundError

if TYPE_CHECKING:
    from ckpttool.query.values.targets import Target

_BINS = 32
EXAMPLES = (
    ("ckpt show ckpts", "A summary of the latest checkpoint in a folder."),
    ("ckpt show ckpts net/l1/kernel", "The values of a tensor."),
    ("ckpt show ckpts 'net/l1/kernel[0:4,-1]'", "A part of it; only these bytes are read."),
    ("ckpt show ckpts 'net/**/bias' --precision 3", "All tensors that match a pattern."),
    ("ckpt show ckpts --stats --kind weight", "Statistics of all weights in one table."),
    ("ckpt show ckpts net/l1/kernel --out kernel.npy", "The tensor as a NumPy file."),
    ("ckpt show ckpts 'net/l1/kernel[:, :3]' --out part.csv", "A part of it as a table."),
    ("ckpt show saved_model --graph", "The graph in detail, and its variables."),
)


@options.command("show", examples=EXAMPLES)
@options.path_argument()
@options.key_arguments()
@options.filter_options
@click.option("--graph", is_flag=True, help="Describe the MetaGraph instead of the tensors.")
@click.option("--full", is_flag=True, help="Print everything, without ellipsis.")
@click.option(
    "--precision", metavar="N", type=click.IntRange(0, 99), help="Print at most N decimals."
)
@click.option(
    "--stats", is_flag=True, help="Print only statistics; of all tensors if no KEY is given."
)
@click.option(
    "-o",
    "--output",
    "--out",
    metavar="FILE",
    type=click.Path(),
    help="Write values to a .npy, .npz, .safetensors or .csv file (- for stdout).",
)
@click.option(
    "--to",
    type=click.Choice(("safetensors", "npz", "npy", "csv")),
    help="Format of the file (default: from its ending).",
)
@click.option("--force", is_flag=True, help="Replace an existing output file.")
@options.keys_option
@options.format_options()
@options.pass_settings
def command(
    settings: options.Settings,
    path: str,
    keys: tuple[str, ...],
    selector: Selector,
    graph: bool,
    full: bool,
    precision: int | None,
    stats: bool,
    output: str | None,
    to: str | None,
    force: bool,
    by_key: bool,
    format: str,
) -> None:
    """Print tensor values exactly as stored, or a summary of the checkpoint.

    KEY is a key, an object path or a pattern; a NumPy index such as [0:4,:] after a name selects
    a part. Tensors of more than 1,000 elements are abbreviated. The crc32c of each tensor is
    checked before it is printed; that of a part cannot be.
    """
    chosen = bool(keys) or not selector.selects_all
    _refuse_output(output, to, values=chosen and not stats)
    if graph and (chosen or stats or precision is not None):
        raise click.UsageError(
            "--graph describes the graph; it cannot be combined with KEY, --stats or --precision"
        )
    if graph:
        _show_graph(settings, path, full, format)
        return
    try:
        location = locate(path)
    except (MissingFileError, NotFoundError) as error:
        if chosen or stats or not (is_graph_file(path) or graph_file_of(path)):
            raise
        settings.warn(str(error))
        _show_graph(settings, path, full, format)
        return
    settings.report(location)
    if location.bare and not (chosen or stats):
        _show_graph(settings, path, full, format)
        return
    with Checkpoint(location) as ckpt:
        if not chosen and not stats:
            _show_summary(settings, ckpt, full, format)
            return
        from ckpttool.query.values.targets import find_targets

        targets = find_targets(ckpt, keys, selector)
        for target in targets:
            if target.index is not None:
                settings.note(f"{target.key}: the crc32c of a part of a tensor is not checked")
        if output is not None:
            _write_file(settings, ckpt, targets, output, to, force=force, by_key=by_key)
        else:
            _show_tensors(settings, ckpt, targets, full, precision, stats, by_key, format)


def _refuse_output(output: str | None, to: str | None, *, values: bool) -> None:
    if output is not None and not values:
        raise click.UsageError("-o writes the values of KEYs")
    if to is not None and output is None:
        raise click.UsageError("--to needs -o FILE")
    if output == "-" and to is None:
        raise click.UsageError("-o - needs --to")


def _show_summary(settings: options.Settings, ckpt: Checkpoint, full: bool, format: str) -> None:
    from ckpttool.query.summary import summarize
    from ckpttool.render.show import rows
    from ckpttool.render.show import summary as render

    if format == "names":
        rows.write_tensor_names(ckpt.entries, sys.stdout)
    else:
        with settings.progress("reading"):
            summary = summarize(ckpt)
        if format in rows.TABULAR:
            rows.write_summary_rows(summary, format, sys.stdout)
        else:
            render.write_summary(summary, format, sys.stdout, settings.terminal(), full=full)
    for error in ckpt.damaged.values():
        raise error  # what was written names it, and is not the whole


def _show_graph(settings: options.Settings, path: str, full: bool, format: str) -> None:
    from ckpttool.query.metagraph.summary import describe_graphs
    from ckpttool.render.metagraph import write_graphs
    from ckpttool.render.show import rows

    with settings.progress("reading"):
        reports = describe_graphs(path)
    for warning in reports.warnings:
        settings.warn(warning)
    settings.note(f"{path} is the graph file {reports.path}")
    if format in rows.TABULAR:
        rows.write_variable_rows(reports, format, sys.stdout)
    else:
        write_graphs(reports, format, sys.stdout, settings.terminal(), full=full)


def _show_tensors(
    settings: options.Settings,
    ckpt: Checkpoint,
    targets: list[Target],
    full: bool,
    precision: int | None,
    stats: bool,
    by_key: bool,
    format: str,
) -> None:
    from ckpttool.query.source import Source
    from ckpttool.query.values import detail as query
    from ckpttool.render.names import NameColumns
    from ckpttool.render.show import rows
    from ckpttool.render.show import text as render

    if format == "names":
        rows.write_tensor_names((target.name for target in targets), sys.stdout)
        return
    terminal = settings.terminal()
    exact = format in ("json", "jsonl", "csv")
    short = rows.MARKDOWN_LIMIT if format == "markdown" else query.TEXT_LIMIT
    on_screen = format == "table" and terminal.interactive and not stats
    with settings.progress("reading", "tensors") as bar:
        details = query.describe_tensors(
            ckpt,
            targets,
            limit=None if full else query.JSON_LIMIT if exact else short,
            nodes=None if full else query.JSON_LIMIT if exact else query.NODE_LIMIT,
            values=not stats,
            bins=_BINS if on_screen else 0,
            on_progress=bar,
        )
    source = Source.of(ckpt)
    names = NameColumns((source.names.row(each.key) for each in targets), by_key=by_key)
    if format in rows.TABULAR and not stats:
        rows.write_value_rows(details, names, format, sys.stdout, precision=precision, full=full)
        return
    render.write_details(
        source,
        details,
        names,
        format,
        sys.stdout,
        terminal,
        stats=stats,
        precision=precision,
        full=full,
    )


def _write_file(
    settings: options.Settings,
    ckpt: Checkpoint,
    targets: list[Target],
    path: str,
    to: str | None,
    *,
    force: bool,
    by_key: bool,
) -> None:
    from ckpttool.query.values.files import ValueFile, format_of_values
    from ckpttool.render import humanize

    file = ValueFile(ckpt, targets, to or format_of_values(path), by_key=by_key)
    if path == "-":
        if to != "csv" and settings.terminal().interactive:
            raise click.UsageError("will not print bytes on a terminal; use -o FILE")
        file.write_to(sys.stdout.buffer.write)
        sys.stdout.buffer.flush()
    else:
        written = file.write(path, force=force)
        settings.note(f"{path}: {humanize.size(written.bytes)}")
    if file.view is not None:
        place = "array" if path == "-" else f"numpy.load('{path}')"
        settings.warn(
            f"NumPy files have no {file.view}: {place}.view(ml_dtypes.{file.view}) gives the values"
        )
