"""`ckpt check`: whether a checkpoint is as its lock says."""

from __future__ import annotations

import sys

import click

from ckpttool.api.check import check, check_misuse
from ckpttool.checkpoint.locate import locate
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.checkpoint.selection.select import Selector
from ckpttool.cli import options
from ckpttool.cli.failures import DONE, FAILED, NEGATIVE
from ckpttool.render.check import text as render
from ckpttool.render.check.words import summary

EXAMPLES = (
    ("ckpt check ckpts --against model.lock.json --update", "Write or rewrite the lock file."),
    ("ckpt check ckpts --against model.lock.json", "Check the latest checkpoint."),
    ("ckpt check ckpts --against model.lock.json --kind weight", "Check only weights."),
    (
        "ckpt check ckpts --against model.lock.json --finite --format github",
        "In a GitHub workflow; also refuse NaN and Inf.",
    ),
    ("ckpt check model.ckpt-3 --graph", "Compare with the variables of its MetaGraph."),
    ("ckpt check ckpts/ckpt-10 --finite", "Look for NaN and Inf, without a lock file."),
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
    help="Lock file: output of `ckpt ls --json` (- for stdin).",
)
@click.option("--update", is_flag=True, help="Write the lock file instead of checking against it.")
@click.option("--finite", is_flag=True, help="Read all values; fail on NaN and Inf.")
@click.option("--graph", is_flag=True, help="Compare with the variables of its MetaGraph.")
@click.option("--crc", is_flag=True, help="Also compare stored crc32c; with --update, record them.")
@options.ignore_option
@click.option("--allow-extra", is_flag=True, help="Accept tensors that are not in the lock.")
@options.keys_option
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
    by_key: bool,
    format: str,
) -> int:
    """Check a checkpoint against a lock file (for CI).

    Compares keys, dtypes and shapes. The lock file is the output of `ckpt ls --json`, kept in the
    repository, or written by --update. Data are read only for --finite. Exit code 0: passed, 1:
    failed, 2: could not be checked.
    """
    given = {"update": update, "crc": crc, "finite": finite, "graph": graph}
    misuse = check_misuse(against, **given, allow_extra=allow_extra)
    options.refuse_misuse(misuse, lock="--against LOCK")
    if update and format in _FOR_CHECKS:
        raise click.UsageError("--update checks nothing, and prints neither github nor junit")
    location = locate(path)
    settings.report(location)
    bar = settings.progress("reading")
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
    render.write_report(report, format, sys.stdout, settings.terminal(), by_key=by_key)
    if format == "names":  # which have no place for a reason
        for each in report.findings:
            if each.error is not None:
                settings.tell(str(each.error))
    if update and format not in ("table", "markdown"):
        settings.tell(f"{against}: {report.update}: {summary(report)}")
    return _CODES[report.verdict]
