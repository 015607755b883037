"""`ckpt rename`: other names for tensors and objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from ckpttool.api.rename import NOTHING_TO_RENAME, rename
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.cli import options
from ckpttool.cli.writing import FORMATS, Destination, carry_out, write_options
from ckpttool.surgery import rules as rule_kinds
from ckpttool.surgery.maps.reading import read_map
from ckpttool.surgery.rules import RenameRule
from ckpttool.surgery.tables import list_tables, load_table

if TYPE_CHECKING:
    from ckpttool.api.outcome import Outcome, Outcomes
    from ckpttool.surgery.writing.write import Writing

EXAMPLES = (
    ("ckpt rename ckpts net=model -o out/ckpt-1", "An object and everything below it."),
    ("ckpt rename ckpts net/l1=net/dense -o out/ckpt-2 -n", "Print the plan only."),
    (
        "ckpt rename ckpts --sub 'l(\\d+)' 'layer_\\1' -o out/ckpt-3",
        "Every name that a regular expression matches.",
    ),
    ("ckpt rename ckpts --map names.tsv -o out/ckpt-4", "Names from a file."),
    ("ckpt rename model.ckpt-3 --prefix tower/ -o out/model.ckpt", "One scope around all names."),
    ("ckpt rename model.ckpt-3 --promote-ema --in-place", "Moving averages instead of weights."),
    ("ckpt rename ckpts net=model --all -o renamed", "Every checkpoint in a folder."),
    ("ckpt rename rnn.ckpt-7 --table tf1-rnn -o out/rnn.ckpt", "RNN cells of TensorFlow 0.12."),
)


def _print_tables(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        for name, purpose in list_tables():
            click.echo(f"{name}\t{purpose}")
        ctx.exit()


@options.command("rename", examples=EXAMPLES)
@options.path_argument("source", metavar="SRC")
@click.argument("moves", metavar="[OLD=NEW]...", nargs=-1, type=options.TensorName())
@click.option(
    "--sub",
    metavar="REGEX REPLACEMENT",
    nargs=2,
    multiple=True,
    help="Replace every match of a regular expression in a name.",
)
@click.option(
    "--map",
    "map",
    metavar="FILE",
    multiple=True,
    type=click.Path(),
    help="Read rules from a file: a JSON object, two columns or ckpt.map/2 (- for stdin).",
)
@click.option(
    "--table",
    metavar="NAME",
    multiple=True,
    help="Use a built-in table of rules; see --list-tables.",
)
@click.option(
    "--strip-prefix", metavar="TEXT", multiple=True, help="Remove TEXT from the start of names."
)
@click.option(
    "--prefix",
    metavar="TEXT",
    multiple=True,
    help="Put TEXT before all names; end a scope with a slash.",
)
@click.option(
    "--promote-ema",
    is_flag=True,
    help="Swap weights and their moving averages before the rules apply.",
)
@click.option("--strict", is_flag=True, help="Fail if a tensor matches no rule.")
@click.option(
    "--list-tables",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_tables,
    help="Print the built-in tables and exit.",
)
@write_options
@options.format_options(*FORMATS)
@options.pass_settings
def command(
    settings: options.Settings,
    source: str,
    moves: tuple[str, ...],
    sub: tuple[tuple[str, str], ...],
    map: tuple[str, ...],
    table: tuple[str, ...],
    strip_prefix: tuple[str, ...],
    prefix: tuple[str, ...],
    promote_ema: bool,
    strict: bool,
    destination: Destination,
    format: str,
) -> None:
    """Rename tensors, and the objects that hold them in an object-based checkpoint.

    OLD is a key, an object path or a scope. All rules apply to the original names, so swaps work;
    the first rule that matches a name decides: OLD=NEW first, then options in their order. Tensor
    data are not rewritten: data shards are linked where possible, else copied.
    """
    rules: list[RenameRule] = [rule_kinds.parse_move(text) for text in moves]
    given: dict[str, tuple[object, ...]] = {
        "map": map,
        "table": table,
        "sub": sub,
        "strip_prefix": strip_prefix,
        "prefix": prefix,
    }
    for name, value in options.in_order(click.get_current_context(), given):
        rules += _rules(name, value)
    if not rules and not promote_ema:
        options.refuse_misuse(NOTHING_TO_RENAME, rules="OLD=NEW")

    def one(ckpt: Checkpoint, how: Writing) -> Outcome:
        to = destination.prefix
        return rename(ckpt, to, rules, promote_ema=promote_ema, strict=strict, **how)

    def each(how: Writing, tell: Callable[[Outcome], None]) -> Outcomes:
        return rename(
            source,
            destination.prefix,
            rules,
            all=True,
            promote_ema=promote_ema,
            strict=strict,
            on_done=tell,
            **how,
        )

    carry_out(settings, source, destination, format, one, each)


def _rules(name: str, value: object) -> list[RenameRule]:
    """Return the rules that an option stands for."""
    if isinstance(value, tuple):
        return [rule_kinds.parse_substitution(*value)]
    text = str(value)
    if name == "map":
        return list(read_map(text))
    if name == "table":
        return [load_table(text)]
    if name == "strip_prefix":
        return [rule_kinds.StripPrefixRule(text)]
    return [rule_kinds.PrefixRule(text)]
