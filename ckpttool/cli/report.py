"""`ckpt report`: a page on a checkpoint."""

from __future__ import annotations

import sys

import click

from ckpttool.api.report import report
from ckpttool.checkpoint.locate import locate
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.checkpoint.selection.select import Selector
from ckpttool.cli import options
from ckpttool.cli.failures import NEGATIVE
from ckpttool.cli.writing import end_cleanly
from ckpttool.printable import unprintable

# The page names as many; the JSON has all.
_MOST_WARNINGS = 20

EXAMPLES = (
    ("ckpt report ckpts -o report.html", "A page on the latest checkpoint in a folder."),
    ("ckpt report ckpts --kind weight -o weights.html", "Its weights only."),
    ("ckpt report ckpts --no-values -o index.html", "From the index alone."),
    ("ckpt report ckpts --json", "The same facts for programs."),
)


@options.command("report", examples=EXAMPLES)
@options.path_argument()
@options.filter_options
@click.option(
    "-o", "--output", metavar="FILE", type=click.Path(), help="The page to write (- for stdout)."
)
@click.option("--force", is_flag=True, help="Replace an existing page.")
@click.option("--title", metavar="TEXT", help="Heading of the page (default: the checkpoint).")
@click.option("--no-values", is_flag=True, help="Read the index alone, no data shard.")
@options.jobs_option("Count")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
@options.pass_settings
def command(
    settings: options.Settings,
    path: str,
    selector: Selector,
    output: str | None,
    force: bool,
    title: str | None,
    no_values: bool,
    jobs: int | None,
    as_json: bool,
) -> int | None:
    """Write a page with the tensors of a checkpoint: sizes, values, layers and objects.

    The page is one HTML file that loads nothing; any browser shows it, also offline. The crc32c of
    each tensor is checked. What is damaged is told on top of the page.
    """
    if output == "-":
        output = None
    if output is None and not as_json and settings.terminal().interactive:
        raise click.UsageError("will not print a page on a terminal; use -o FILE")
    if output is None and force:
        raise click.UsageError("--force needs -o FILE")
    if output is not None:
        end_cleanly()
    location = locate(path)
    settings.report(location)
    with Checkpoint(location) as ckpt:
        with settings.progress("reading") as bar:
            made = report(
                ckpt, selector, title=title, values=not no_values, jobs=jobs, on_progress=bar
            )
        if output is not None:
            made.save(output, force=force)
    if as_json:
        made.write_json(sys.stdout)
    elif output is None:
        sys.stdout.write(made.html)
    sys.stdout.flush()
    for problem in made.problems[:_MOST_WARNINGS]:
        settings.warn(unprintable(problem))
    if len(made.problems) > _MOST_WARNINGS:
        settings.warn(f"{len(made.problems) - _MOST_WARNINGS} more problems")
    return None if made.complete else NEGATIVE
