"""Shared arguments and options, so that each means the same in all commands."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click
from click.core import ParameterSource

from ckpttool.checkpoint.kinds.rules import KINDS
from ckpttool.checkpoint.selection.select import SelectionRule, Selector
from ckpttool.cli import pager
from ckpttool.cli.failures import complain
from ckpttool.printable import printable
from ckpttool.render.console import COLOR_CHOICES, ColorChoice, Terminal, describe
from ckpttool.render.progress import ProgressBar, ProgressUnit

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from ckpttool.checkpoint.locate import Location

    TextType = click.ParamType[str]
    NumberType = click.ParamType[int]
else:
    TextType = NumberType = click.ParamType  # not generic in the older versions of click

F = TypeVar("F", bound=Callable[..., Any])
V = TypeVar("V")
OUTPUT_FORMATS = ("table", "plain", "json", "jsonl", "csv", "markdown", "names")
_ORDER = "ckpttool.cli.options.order"
_JSON = "ckpttool.cli.options.json"
_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([KMGT]?)(i?)B?\Z", re.IGNORECASE)


@dataclass(slots=True)
class Settings:
    """The general options, given before the command or after it.

    Attributes:
        verbosity: how often -v was given.
        color: the value of --color.
        pager: whether a pager may be used.
    """

    verbosity: int = 0
    color: ColorChoice = "auto"
    pager: bool = True

    def terminal(self, stream: TextIO | None = None) -> Terminal:
        """Return the terminal of a stream, stdout by default."""
        return describe(sys.stdout if stream is None else stream, self.color)

    def progress(self, what: str, unit: ProgressUnit = "bytes") -> ProgressBar:
        """Return a progress bar on stderr; arguments as of `ProgressBar`."""
        terminal = self.terminal(sys.stderr)
        return ProgressBar(what, sys.stderr, terminal, unit=unit, hidden=pager.is_running)

    def note(self, message: str) -> None:
        """Write a message to stderr if -v was given."""
        if self.verbosity:
            complain(printable(message))

    def tell(self, message: str) -> None:
        """Write a message to stderr."""
        complain(printable(message))

    def warn(self, message: str) -> None:
        """Write a warning to stderr."""
        complain(f"warning: {printable(message)}")

    def report(self, location: Location) -> None:
        """Report what an address resolved to, and its warnings."""
        for warning in location.warnings:
            self.warn(warning)
        self.note(f"{location.typed} is the {location.generation} checkpoint {location.prefix}")


pass_settings = click.make_pass_decorator(Settings, ensure=True)


class CheckpointPath(TextType):
    """An address of a checkpoint, as `ckpttool.checkpoint.locate` takes it."""

    name = "path"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Complete prefixes, files and folders."""
        from ckpttool.cli.completion import complete_addresses

        return complete_addresses(incomplete)


class TensorName(TextType):
    """A key, an object path or a pattern over them."""

    name = "name"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Complete the names in the checkpoint typed before."""
        from ckpttool.cli.completion import complete_names

        return complete_names(checkpoint_paths(ctx), incomplete)


class KindList(TextType):
    """One kind or several, separated by commas."""

    name = "kind"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Complete the kind after the last comma."""
        from click.shell_completion import CompletionItem

        before, comma, last = incomplete.rpartition(",")
        return [
            CompletionItem(f"{before}{comma}{kind}")
            for kind in KINDS
            if kind.startswith(last) and kind not in before.split(",")
        ]


class ByteSize(NumberType):
    """A number of bytes: 5000000, 500MB, 2GiB."""

    name = "size"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Return the bytes."""
        match = _SIZE.match(str(value).strip())
        if match is None:
            self.fail(f"'{value}' is no size such as 500MB or 2GiB", param, ctx)
        step = 1024 if match[3] else 1000
        size = int(float(match[1]) * step ** " KMGT".index(match[2].upper() or " "))
        if size < 1:
            self.fail("a data shard has at least one byte", param, ctx)
        return size


class Command(click.Command):
    """A command with the general options, examples in its help, and options in their order.

    Args:
        examples: command lines with what they do, for the help.
    """

    def __init__(self, *args: Any, examples: Sequence[tuple[str, str]] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = tuple(examples)
        self.params += general_options()

    def make_parser(self, ctx: click.Context) -> Any:
        """Return click's parser, made to keep the order in which options were given."""
        parser = super().make_parser(ctx)
        parse_args = parser.parse_args

        def parse_and_keep_order(args: list[str]) -> Any:
            if ctx.resilient_parsing and args and args[-1].startswith("-"):
                # An option whose value is being completed would hide everything before it.
                args = args[:-1]
            result = parse_args(args=args)
            ctx.meta[_ORDER] = [param.name for param in result[2]]
            return result

        parser.parse_args = parse_and_keep_order  # type: ignore[method-assign]
        return parser

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; what is longer than the screen is paged."""
        with pager.paged(ctx.ensure_object(Settings).pager):
            return super().invoke(ctx)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words; a path too many is called one."""
        words = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            if error.ctx is None:  # an option without its value
                error.ctx = ctx
            if type(error) is not click.UsageError or "unexpected extra" not in error.message:
                raise
            from ckpttool.checkpoint.nearest import path_hint

            extra = (word for word in words if word in error.message)
            hint = next(filter(None, map(path_hint, extra)), "")
            raise click.UsageError(error.message + hint, error.ctx) from error

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples."""
        if self.examples:
            with formatter.section("Examples"):
                for line, meaning in self.examples:
                    formatter.write(f"{'':>{formatter.current_indent}}{line}\n")
                    with formatter.indentation():
                        formatter.write_text(meaning)
        super().format_epilog(ctx, formatter)


def command(
    name: str, *, examples: Sequence[tuple[str, str]] = ()
) -> Callable[[Callable[..., Any]], Command]:
    """Make a function a command of `ckpt`; its docstring is the help.

    Args:
        name: the name of the command.
        examples: command lines with what they do.
    """
    return click.command(name, cls=Command, examples=examples)


def general_options() -> list[click.Parameter]:
    """Return the options that may come before the command or after it."""
    return [
        click.Option(
            ["-v", "--verbose"],
            count=True,
            expose_value=False,
            callback=_add_verbosity,
            help="Print details to stderr; given twice, also tracebacks.",
        ),
        click.Option(
            ["--color"],
            type=click.Choice(COLOR_CHOICES),
            expose_value=False,
            callback=_set_color,
            help="Use colour: auto means only on a terminal.",
        ),
        click.Option(
            ["--no-pager"],
            is_flag=True,
            expose_value=False,
            callback=_set_pager,
            help="Do not page long output on a terminal.",
        ),
    ]


def path_argument(name: str = "path", *, metavar: str = "PATH", nargs: int = 1) -> Callable[[F], F]:
    """Add an argument that is the address of a checkpoint, or of one or more with `nargs=-1`."""
    return click.argument(name, metavar=metavar, nargs=nargs, required=True, type=CheckpointPath())


def key_arguments(name: str = "keys", *, metavar: str = "[KEY]...") -> Callable[[F], F]:
    """Add an argument that takes any number of keys or object paths."""
    return click.argument(name, metavar=metavar, nargs=-1, type=TensorName())


def selection_options(function: F) -> F:
    """Add PATTERN arguments, -i, -x and --kind; the function gets a `selector: Selector`."""
    argument = click.argument("patterns", metavar="[PATTERN]...", nargs=-1, type=TensorName())
    return argument(filter_options(function))


def filter_options(function: F) -> F:
    """Add -i, -x and --kind alone; the function gets a `selector: Selector`."""

    @wraps(function)
    def with_selector(
        *args: Any,
        include: tuple[str, ...],
        exclude: tuple[str, ...],
        kind: tuple[str, ...],
        patterns: tuple[str, ...] = (),
        **kwargs: Any,
    ) -> Any:
        rules = [SelectionRule(pattern) for pattern in patterns]
        rules += _ordered_rules(click.get_current_context(), include, exclude)
        return function(*args, selector=Selector(rules, kinds=kinds_of(kind)), **kwargs)

    decorators = (
        click.option(
            "-i",
            "--include",
            metavar="PATTERN",
            multiple=True,
            type=TensorName(),
            help="Include matching tensors. The last matching -i or -x decides.",
        ),
        click.option(
            "-x",
            "--exclude",
            metavar="PATTERN",
            multiple=True,
            type=TensorName(),
            help="Exclude matching tensors.",
        ),
        kind_option("Only tensors of these kinds"),
    )
    decorated: Any = with_selector
    for decorator in reversed(decorators):
        decorated = decorator(decorated)
    return decorated  # type: ignore[no-any-return]


def kind_option(help: str) -> Callable[[F], F]:
    """Add --kind; the function gets `kind`, words for `kinds_of`.

    Args:
        help: what the option does, without a full stop; the kinds follow.
    """
    return click.option(
        "--kind",
        metavar="KIND[,KIND...]",
        multiple=True,
        type=KindList(),
        help=f"{help}: {', '.join(KINDS)}.",
    )


def kinds_of(words: Iterable[str]) -> list[str]:
    """Return the kinds in the values of --kind."""
    return [kind for word in words for kind in word.split(",") if kind]


def ignore_option(function: F) -> F:
    """Add --ignore; the function gets `ignore`, patterns.

    Unlike --exclude, it takes tensors out of both things that are compared: they can be no other
    name for another tensor, and nothing is said about them.
    """
    return click.option(
        "--ignore",
        metavar="PATTERN",
        multiple=True,
        type=TensorName(),
        help="Treat matching tensors as absent on both sides.",
    )(function)


def refuse_misuse(message: str | None, **spelled: str) -> None:
    """Refuse options that the command's function in `ckpttool.api` would refuse as arguments.

    Args:
        message: from the function that tells; names of arguments stand in braces. None if all is
            well.
        spelled: what to write for an argument, if it is not the option of that name.
    """
    if message is not None:
        raise click.UsageError(message.format_map(_Spelled(spelled)))


class _Spelled(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return "--" + name.replace("_", "-")


def _ordered_rules(
    ctx: click.Context, include: Iterable[str], exclude: Iterable[str]
) -> list[SelectionRule]:
    """Return the rules of -i and -x in the order of the command line.

    Those from the environment have no order: includes come first.
    """
    values = in_order(ctx, {"include": include, "exclude": exclude})
    return [SelectionRule(text, include=name == "include") for name, text in values]


def in_order(ctx: click.Context, values: Mapping[str, Iterable[V]]) -> list[tuple[str, V]]:
    """Return parameter name and value of repeatable options in the order of the command line.

    Those from the environment have no order and follow in the order of `values`.

    Args:
        ctx: the context of the command.
        values: click's values of each option, by the name of its parameter.
    """
    rest = {name: iter(each) for name, each in values.items()}
    out = []
    for name in ctx.meta.get(_ORDER, ()):
        if name in rest and ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            out.append((name, next(rest[name])))
    for name, left in rest.items():
        out += [(name, value) for value in left]
    return out


def format_options(*formats: str) -> Callable[[F], F]:
    """Add --format and --json; the function gets `format`, one of `formats`.

    Args:
        formats: those of the command; `OUTPUT_FORMATS` by default. The default for the user is
            "table" on a terminal and "plain" elsewhere.
    """
    known = formats or OUTPUT_FORMATS
    json_option = click.option(
        "--json",
        "json",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_note_json,
        help="Same as --format json.",
    )
    format_option = click.option(
        "--format",
        "format",
        type=click.Choice(known),
        callback=_choose_format,
        help="Output format. Default: table on a terminal, plain elsewhere.",
    )

    def add(function: F) -> F:
        return format_option(json_option(function))

    return add


def keys_option(function: F) -> F:
    """Add --keys; the function gets `by_key`."""
    return click.option(
        "--keys",
        "by_key",
        is_flag=True,
        help="Show keys instead of object paths and variable names.",
    )(function)


def jobs_option(what: str) -> Callable[[F], F]:
    """Add --jobs; the function gets `jobs`, how many threads may work, or None.

    Args:
        what: what the threads do, as the first word of the help.
    """
    return click.option(
        "-j",
        "--jobs",
        metavar="N",
        type=click.IntRange(1),
        help=f"{what} with N threads (default: one per processor).",
    )


def checkpoint_paths(ctx: click.Context) -> list[str]:
    """Return the addresses of checkpoints on the command line parsed so far."""
    paths: list[str] = []
    for param in ctx.command.params:
        if isinstance(param.type, CheckpointPath) and param.name is not None:
            value = ctx.params.get(param.name)
            paths += [value] if isinstance(value, str) else value or []
    return paths


def _add_verbosity(ctx: click.Context, param: click.Parameter, value: int) -> None:
    ctx.ensure_object(Settings).verbosity += value


def _set_color(ctx: click.Context, param: click.Parameter, value: ColorChoice | None) -> None:
    if value is not None:
        ctx.ensure_object(Settings).color = value


def _set_pager(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        ctx.ensure_object(Settings).pager = False


def _note_json(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and param.name is not None:
        ctx.meta[_JSON] = ctx.get_parameter_source(param.name)


def _choose_format(ctx: click.Context, param: click.Parameter, value: str | None) -> str:
    typed = ParameterSource.COMMANDLINE
    format_typed = param.name is not None and ctx.get_parameter_source(param.name) is typed
    json_source = ctx.meta.get(_JSON)
    if json_source is typed and format_typed and value != "json":
        raise click.UsageError(f"--json and --format {value} contradict each other", ctx)
    if json_source is typed or (json_source is not None and not format_typed):
        return "json"
    if value is not None:
        return value
    return "table" if ctx.ensure_object(Settings).terminal().interactive else "plain"
