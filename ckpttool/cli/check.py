"""`ckpt check`: whether a checkpoint is as its lock says."""

from __future__ import annotations

import sys

import click

from ckpttool.api.check import check
from ckpttool.checkpoint.locate import locate
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.checkpoint.selection.select import Selector
from ckpttool.cli import options
from ckpttool.cli.failures import DONE, FAILED, NEGATIVE
from ckpttool.render.check import text as render
from ckpttool.render.check.words import summary
from ckpttool.render.progress import ProgressBar

EXAMPLES = (
    ("ckpt check ckpts --against model.lock.json --update", "Write the lock, or write it anew."),
    ("ckpt check ckpts --against model.lock.json", "Hold the latest checkpoint against it."),
    ("ckpt check ckpts --against model.lock.json --kind weight", "Its weights alone."),
    (
        "ckpt check ckpts --against model.lock.json --finite --format github",
        "In a workflow of GitHub: also refuse NaN and Inf.",
    ),
    ("ckpt check model.ckpt-3 --graph", "Hold it against the variables of its MetaGraph."),
    ("ckpt check ckpts/ckpt-10 --finite", "Look for NaN and Inf without a lock."),
)
_CODES = {"ok": DONE, "failed": NEGATIVE, "unknown": FAILED}
_FOR_CHECKS = ("github", "junit")


@options.command("check", examples=EXAMPLES)
@options.path_argument()
@options.selection_options
@click.option(
    "--against",
    metavar="LOCK",
    type=click.Path(),
    help="The lock: what `ckpt ls --json` printed once; - is standard input.",
)
@click.option("--update", is_flag=True, help="Write the lock instead of holding against it.")
@click.option("--finite", is_flag=True, help="Read all numbers; refuse NaN and infinities.")
@click.option("--graph", is_flag=True, help="Hold against the variables of its MetaGraph.")
@click.option("--crc", is_flag=True, help="Compare each stored crc32c; put it into the lock.")
@click.option(
    "--ignore",
    metavar="PATTERN",
    multiple=True,
    type=options.TensorName(),
    help="Leave out what this pattern selects, wherever it is.",
)
@click.option("--allow-extra", is_flag=True, help="Accept tensors that the lock does not have.")
@options.format_options(*options.OUTPUT_FORMATS, *_FOR_CHECKS)
@options.pass_settings
def command(
    settings: options.Settings,
    path: str,
    selector: Selector,
    against: str | None,
    update: bool,
    finite: bool,
    graph: bool,
    crc: bool,
    ignore: tuple[str, ...],
    allow_extra: bool,
    format: str,
) -> int:
    """Hold a checkpoint against a lock: its keys, dtypes and shapes.

    The lock is a file kept with the program: the output of `ckpt ls --json`, or what --update
    makes of it. Without --finite no data are read. Exits with 0 if the checkpoint is as it should
    be, 1 if it is not, 2 if that cannot be told.
    """
    if against is None and not finite and not graph:
        raise click.UsageError(
            "there is nothing to check: give --against LOCK, --graph, or --finite"
        )
    if against is None and (update or crc or (allow_extra and not graph)):
        raise click.UsageError("--update, --crc and --allow-extra go with --against LOCK")
    if update and (finite or graph or allow_extra or format in _FOR_CHECKS):
        raise click.UsageError(
            "--update checks nothing: it takes no --finite, no --graph and no --allow-extra, "
            "and prints neither github nor junit"
        )
    if update and against == "-":
        raise click.UsageError("--update needs a file to write")
    location = locate(path)
    settings.report(location)
    bar = ProgressBar("reading", sys.stderr, settings.terminal(sys.stderr))
    with Checkpoint(location) as ckpt, bar:
        report = check(
            ckpt,
            against,
            selector,
            ignore=ignore,
            update=update,
            crc=crc,
            finite=finite,
            graph=graph,
            allow_extra=allow_extra,
            on_progress=bar,
        )
    render.write_report(report, format, sys.stdout, settings.terminal())
    if format == "names":  # which have no place for a reason
        for each in report.findings:
            if each.error is not None:
                settings.tell(str(each.error))
    if update and format not in ("table", "markdown"):
        settings.tell(f"{against}: {report.update}: {summary(report)}")
    return _CODES[report.verdict]
