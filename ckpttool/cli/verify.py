"""`ckpt verify`: whether checkpoints are sound."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator

import click

from ckpttool.cli import options
from ckpttool.cli.failures import DONE, FAILED, NEGATIVE, complain
from ckpttool.errors import CkptError
from ckpttool.query.verify.addresses import (
    find_folder,
    find_subjects,
    state_treatment,
    verify_each,
)
from ckpttool.query.verify.report import Report, Subject
from ckpttool.render import humanize
from ckpttool.render import verify as render

EXAMPLES = (
    ("ckpt verify ckpts/ckpt-10", "Check every byte of a checkpoint."),
    ("ckpt verify ckpts", "All checkpoints in a folder, and stray files."),
    ("ckpt verify ckpts --fast", "Only indexes and file sizes."),
    ("ckpt verify ckpts --strict --json", "Warnings count as damage; output for programs."),
    ("ckpt verify saved_model -j 4", "A SavedModel, with four threads."),
    ("ckpt verify ckpts --repair-state", "Write a missing or wrong state file anew."),
)


@options.command("verify", examples=EXAMPLES)
@options.path_argument("paths", metavar="PATH...", nargs=-1)
@click.option("--fast", is_flag=True, help="Check only indexes and file sizes; read no data.")
@click.option("--strict", is_flag=True, help="Fail on warnings too.")
@click.option(
    "--repair-state",
    is_flag=True,
    help="Write the state file of a folder anew if it is missing or wrong.",
)
@click.option(
    "-n", "--dry-run", is_flag=True, help="With --repair-state, only print what would be written."
)
@options.jobs_option("Read")
@options.keys_option
@options.format_options()
@options.pass_settings
def command(
    settings: options.Settings,
    paths: tuple[str, ...],
    fast: bool,
    strict: bool,
    repair_state: bool,
    dry_run: bool,
    jobs: int | None,
    by_key: bool,
    format: str,
) -> int:
    """Verify checksums and structure; report all damage.

    Reads every byte of index and data. For a folder, checks all checkpoints in it and reports
    files that belong to none. Exit code 0: sound, 1: damage, 2: something could not be checked.
    """
    if dry_run and not repair_state:
        raise click.UsageError("-n goes with --repair-state; all else reads files")
    repair = state_treatment(repair=repair_state, dry_run=dry_run)
    if repair == "write":
        from ckpttool.cli.writing import end_cleanly  # else nothing is written

        end_cleanly()
    codes: list[int] = []
    bar = settings.progress("verifying")

    def reports() -> Iterator[Report]:
        find = find_folder if repair_state else find_subjects
        subjects = _subjects(settings, paths, codes, find)
        start = time.perf_counter()
        for report in verify_each(
            subjects,
            fast=fast,
            jobs=jobs,
            on_progress=bar,
            repair=repair,
            on_wait=settings.tell,
        ):
            bar.clear()
            codes.append(_code(report, strict=strict))
            if report.kind == "checkpoint" and not fast:
                settings.note(_pace(report, time.perf_counter() - start))
            yield report
            if not fast:  # the next one may take long: what was found is shown at once
                sys.stdout.flush()
            start = time.perf_counter()

    with bar:
        render.write_reports(
            reports(),
            format,
            sys.stdout,
            settings.terminal(),
            fast=fast,
            strict=strict,
            everything=settings.verbosity > 0,
            by_key=by_key,
        )
    # Damage that was found is the answer, even if something else could not be looked at.
    return NEGATIVE if NEGATIVE in codes else max(codes, default=DONE)


def _subjects(
    settings: options.Settings,
    paths: tuple[str, ...],
    codes: list[int],
    find: Callable[[str], list[Subject]],
) -> Iterator[Subject]:
    """Yield what is to be verified; of several paths one that is wrong does not stop the rest.

    Several files of one checkpoint, as a wildcard of the shell gives them, mean it once.
    """
    seen: set[tuple[str, str]] = set()
    for path in paths:
        try:
            subjects = find(path)
        except CkptError as error:
            if len(paths) == 1:
                raise
            complain(str(error))
            codes.append(FAILED)
            continue
        for subject in subjects:
            if (subject.kind, subject.prefix) in seen:
                continue
            seen.add((subject.kind, subject.prefix))
            if subject.location is not None:
                settings.report(subject.location)
            yield subject


def _code(report: Report, *, strict: bool) -> int:
    verdict = report.judged(strict=strict)
    return {"damaged": NEGATIVE, "unchecked": FAILED}.get(verdict, DONE)


def _pace(report: Report, seconds: float) -> str:
    text = f"{report.prefix}: {humanize.size(report.bytes_read)} in {humanize.duration(seconds)}"
    if seconds > 0:
        text += f", {humanize.size(round(report.bytes_read / seconds))} a second"
    return text
