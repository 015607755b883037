"""`ckpt export-meta-json`: a MetaGraph as JSON, text or bytes, and back."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import cast

import click

from ckpttool.api.export_meta_json import export_meta_json, export_misuse, output_form
from ckpttool.cli import options
from ckpttool.query.metagraph.document import GRAPH_FORMS, GraphForm

EXAMPLES = (
    (
        "ckpt export-meta-json saved_model --select meta_info_def,signature_def",
        "Its producer and its signatures.",
    ),
    ("ckpt export-meta-json model.ckpt-3 --decode-collections", "With its variables as messages."),
    ("ckpt export-meta-json saved_model --elide-constants=1024", "Without large constants."),
    ("ckpt export-meta-json saved_model --saved-model -o model.json", "All MetaGraphs."),
    ("ckpt export-meta-json model.ckpt-3 -o graph.pbtxt", "As text protobuf."),
    (
        "ckpt export-meta-json saved_model | ckpt export-meta-json --from-json - -o graph.meta",
        "To JSON and back.",
    ),
)
_ELIDE = "--elide-constants"
_DEFAULT_ELIDE = 64
_INDENT = 2


class ExportCommand(options.Command):
    """A command with an option whose value may be left out, but not stand apart from it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Give the option its default value where it has none."""
        end = args.index("--") if "--" in args else len(args)
        given = [f"{_ELIDE}={_DEFAULT_ELIDE}" if word == _ELIDE else word for word in args[:end]]
        return super().parse_args(ctx, given + args[end:])


@click.command("export-meta-json", cls=ExportCommand, examples=EXAMPLES)
@options.path_argument("meta", metavar="META")
@click.option(
    "--to",
    type=click.Choice(GRAPH_FORMS),
    help="Output form (default: from the ending of the output's name, else JSON).",
)
@click.option("--from-json", is_flag=True, help="Read META as JSON (- for stdin).")
@click.option(
    "-o", "--output", metavar="FILE", type=click.Path(), help="Write to FILE instead of stdout."
)
@click.option("--force", is_flag=True, help="Replace an existing output file.")
@click.option(
    "--tag-set",
    metavar="TAG[,TAG...]",
    help="Choose the MetaGraph of a SavedModel by its tags.",
)
@click.option("--saved-model", is_flag=True, help="Print the whole SavedModel message.")
@click.option(
    "--select",
    metavar="FIELD[,FIELD...]",
    help="Print only these fields of the MetaGraph.",
)
@click.option("--decode-collections", is_flag=True, help="Decode the messages inside collections.")
@click.option(
    _ELIDE,
    metavar="BYTES",
    type=click.IntRange(0),
    help=f"Replace constants larger than BYTES (default: {_DEFAULT_ELIDE}) by size and digest.",
)
@click.option(
    "--indent",
    metavar="N",
    type=click.IntRange(0, 16),
    help=f"Indentation of JSON (default: {_INDENT}).",
)
@click.option("--one-line", is_flag=True, help="Print JSON on one line.")
@click.option("--strict", is_flag=True, help="Fail if the output form cannot hold everything.")
@options.pass_settings
def command(
    settings: options.Settings,
    meta: str,
    to: str | None,
    from_json: bool,
    output: str | None,
    force: bool,
    tag_set: str | None,
    saved_model: bool,
    select: str | None,
    decode_collections: bool,
    elide_constants: int | None,
    indent: int | None,
    one_line: bool,
    strict: bool,
) -> None:
    """Print a MetaGraph as JSON (protobuf's JSON mapping), without loss.

    META is a .meta file, saved_model.pb, fingerprint.pb, their text form (.pbtxt), the folder of
    a SavedModel or SessionBundle export, or a checkpoint with a graph. For a SavedModel with
    several MetaGraphs, --tag-set chooses one and --saved-model prints all.
    """
    form = output_form(cast("GraphForm | None", to), output, from_json=from_json)
    misuse = export_misuse(
        form,
        output,
        force=force,
        for_json=decode_collections or elide_constants is not None,
        saved_model=saved_model,
        part=bool(select) or tag_set is not None,
    )
    options.refuse_misuse(misuse, output="-o")
    if form != "json" and (one_line or indent is not None):
        raise click.UsageError("--indent and --one-line need JSON")
    if one_line and indent is not None:
        raise click.UsageError("--indent and --one-line cannot be combined")
    if form == "pb" and output is None and settings.terminal().interactive:
        raise click.UsageError("will not print bytes on a terminal; use -o FILE")
    waiting = meta == "-"  # for somebody who types, perhaps
    with nullcontext() if waiting else settings.progress("converting"):
        export = export_meta_json(
            meta,
            output,
            to=form,
            from_json=from_json,
            force=force,
            tag_set=tag_set,
            saved_model=saved_model,
            select=select or "",
            decode_collections=decode_collections,
            elide_constants=elide_constants,
            indent=None if one_line else _INDENT if indent is None else indent,
            strict=strict,
        )
    for warning in export.warnings:
        settings.warn(warning)
    if not from_json:
        settings.note(f"{meta} is the graph file {export.path}")
    if output is None:
        export.write_to(sys.stdout.buffer.write)
        sys.stdout.flush()
    else:
        settings.note(f"wrote {output}")
    for line in export.notes:
        settings.warn(line)
