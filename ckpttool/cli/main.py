"""The entry point of `ckpt`, and the table of its commands.

A command is imported only when it is used: the table has its line in `ckpt --help`.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

import click

from ckpttool import __version__
from ckpttool.cli import failures
from ckpttool.cli.options import Settings, general_options

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

ENVIRONMENT_PREFIX = "CKPT"
COMPLETE_VARIABLE = "_CKPT_COMPLETE"


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """The module of a command, and its line in `ckpt --help`."""

    module: str
    help: str


COMMANDS: Mapping[str, CommandEntry] = {
    "ls": CommandEntry("ckpttool.cli.ls", "List tensors: key, dtype, shape, kind and bytes."),
    "show": CommandEntry("ckpttool.cli.show", "Print values and statistics, or a summary."),
    "diff": CommandEntry("ckpttool.cli.diff", "Show what changed between two checkpoints."),
    "report": CommandEntry("ckpttool.cli.report", "Write a page that shows a checkpoint."),
    "rename": CommandEntry("ckpttool.cli.rename", "Rename tensors and objects."),
    "edit": CommandEntry("ckpttool.cli.edit", "Set, cast and replace tensors."),
    "average": CommandEntry("ckpttool.cli.average", "Write the mean of several checkpoints."),
    "prune": CommandEntry("ckpttool.cli.prune", "Drop tensors, such as optimizer state."),
    "export": CommandEntry(
        "ckpttool.cli.export", "Write tensors to safetensors, npz and npy files."
    ),
    "import": CommandEntry(
        "ckpttool.cli.import_checkpoint",
        "Make a checkpoint of a safetensors, npz, npy or HDF5 file.",
    ),
    "export-meta-json": CommandEntry(
        "ckpttool.cli.export_meta_json", "Convert a MetaGraph to JSON and back."
    ),
    "convert-legacy": CommandEntry(
        "ckpttool.cli.convert_legacy", "Convert old checkpoints and exports to today's formats."
    ),
    "verify": CommandEntry(
        "ckpttool.cli.verify", "Verify checksums and structure; report all damage."
    ),
    "check": CommandEntry("ckpttool.cli.check", "Check a checkpoint against a lock file (for CI)."),
    "match": CommandEntry("ckpttool.cli.match", "Show why a checkpoint does not load."),
    "gc": CommandEntry("ckpttool.cli.gc", "Delete the old checkpoints of a folder."),
}
# What has no page of its own in the manual.
HELPERS: Mapping[str, CommandEntry] = {
    "help": CommandEntry("ckpttool.cli.help", "Show the help of a command."),
    "completion": CommandEntry(
        "ckpttool.cli.completion_script", "Print the completion script for a shell."
    ),
}


class CommandTable(click.Group):
    """A group whose commands are imported on first use.

    Args:
        table: the commands by name, in the order of the help.
    """

    def __init__(self, *args: Any, table: Mapping[str, CommandEntry], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; None if there is none of this name."""
        entry = self.table.get(cmd_name)
        if entry is None:
            return None
        found = import_module(entry.module).command
        if not isinstance(found, click.Command):
            raise TypeError(f"{entry.module}.command is no command")
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands with their lines of help."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in self.table.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the called command, or name the nearest one in the error."""
        name = args[0]
        if name not in self.table and not ctx.resilient_parsing and name[:1] != "-":
            from ckpttool.checkpoint.nearest import nearest, quoted

            if os.path.lexists(name) or os.path.lexists(f"{name}.index"):
                from shlex import quote

                hint = f"it is a path: try '{ctx.command_path} ls {quote(name)}'"
                raise click.UsageError(f"no such command '{name}'; {hint}", ctx)
            near = nearest(name, self.table, limit=1)
            hint = f"nearest: {quoted(near)}" if near else f"there are {', '.join(self.table)}"
            raise click.UsageError(f"no such command '{name}'; {hint}", ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the names of commands from the table, and options as any command does."""
        from click.shell_completion import CompletionItem

        named = [
            CompletionItem(name, help=entry.help)
            for name, entry in self.table.items()
            if name.startswith(incomplete)
        ]
        return named + click.Command.shell_complete(self, ctx, incomplete)


@click.group(
    cls=CommandTable,
    table={**COMMANDS, **HELPERS},
    name=failures.PROGRAM,
    params=general_options(),
    invoke_without_command=True,
    context_settings={
        "auto_envvar_prefix": ENVIRONMENT_PREFIX,
        "help_option_names": ["-h", "--help"],
    },
)
@click.version_option(
    __version__,
    "-V",
    "--version",
    prog_name=failures.PROGRAM,
    message="%(prog)s %(version)s",
    allow_from_autoenv=False,
)
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Inspect, compare, verify and edit TensorFlow checkpoints, without TensorFlow.

    Name a checkpoint by its prefix, by any of its files, by its folder (the latest checkpoint) or
    by a SavedModel. Options can also be set in the environment: CKPT_LS_FORMAT is --format of
    `ckpt ls`.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(args: Sequence[str] | None = None, *, begin: Callable[[], object] = lambda: None) -> int:
    """Run `ckpt` and return its exit code.

    Args:
        args: the words after the name of the program; those of the process by default.
        begin: called as soon as errors are reported.
    """
    # A listing makes many objects and drops none: collecting garbage as often as by default takes
    # a third of the time.
    gc.set_threshold(1_000_000, 50, 100)
    words = list(sys.argv[1:] if args is None else args)
    settings = Settings()
    instruction = os.environ.get(COMPLETE_VARIABLE) if args is None else None

    def work() -> object:
        begin()
        if instruction:
            from ckpttool.cli.completion import answer_shell

            return answer_shell(cli, COMPLETE_VARIABLE, instruction)
        with cli.make_context(failures.PROGRAM, words, obj=settings) as ctx:
            return cli.invoke(ctx)

    return failures.run(work, settings)


def script() -> NoReturn:
    """Run `ckpt` as a program of its own.

    All work is done when `main` returns. Its objects, a million perhaps, are left to the operating
    system: freeing them one by one would take longer.
    """
    code = main(begin=_take_interrupts)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # the reader is gone, which is reported already
            stream.flush()
    os._exit(code)


def _take_interrupts() -> None:
    """Let an interrupt raise KeyboardInterrupt from now on, unless none are wanted."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if os.name == "posix":  # elsewhere a process that signals itself is ended
            sys.unraisablehook = _interrupt_again


def _interrupt_again(lost: sys.UnraisableHookArgs) -> None:
    """Interrupt once more, a moment later, if Python drops an interrupt, as in a `__del__`."""
    if lost.exc_type is KeyboardInterrupt:
        from threading import Timer

        Timer(0.01, os.kill, (os.getpid(), signal.SIGINT)).start()
    else:
        sys.__unraisablehook__(lost)
