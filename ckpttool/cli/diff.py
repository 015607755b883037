"""`ckpt diff`: what changed between two checkpoints."""

from __future__ import annotations

import json
import os
import sys
from functools import partial

import click

from ckpttool.api.diff import diff
from ckpttool.checkpoint.folder import last_two
from ckpttool.checkpoint.locate import is_graph_file, locate
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.checkpoint.selection.select import SelectionRule, Selector
from ckpttool.cli import options
from ckpttool.cli.failures import DONE, FAILED, NEGATIVE, complain
from ckpttool.errors import UnsupportedError
from ckpttool.query.diff.renames import save_map
from ckpttool.query.diff.results import EXACT_ALONE, Diff
from ckpttool.query.diff.series import diff_series
from ckpttool.render.diff import text as render
from ckpttool.render.diff.layers import write_layers
from ckpttool.render.diff.series import write_series

EXAMPLES = (
    ("ckpt diff ckpts/ckpt-8 ckpts/ckpt-10", "What changed between two steps of training."),
    ("ckpt diff ckpts", "The latest checkpoint in a folder and the one before it."),
    ("ckpt diff ckpts/ckpt-9 ckpts --kind weight --rtol 1e-5", "Weights, with a tolerance."),
    ("ckpt diff ckpts/ckpt-9 ckpts --name-status", "A letter and a name for each difference."),
    ("ckpt diff ckpts/ckpt-9 ckpts --quiet || echo changed", "Only the exit code."),
    ("ckpt diff ckpts model.ckpt-3 --json", "The whole comparison, for programs."),
    ("ckpt diff model.ckpt-3 saved_model --graph", "The graphs instead of the tensors."),
    ("ckpt diff ckpts/ckpt-8 ckpts/ckpt-10 --collapse", "Which layers changed, and how much."),
    ("ckpt diff --series ckpts net/l1", "How tensors change from one checkpoint to the next."),
)
_VIEWS = ("stat", "name-only", "name-status")
_TOLERANCE = click.FloatRange(0)


@options.command("diff", examples=EXAMPLES)
@options.path_argument("a", metavar="A")
@click.argument("b", metavar="[B]", required=False, type=options.CheckpointPath())
@options.selection_options
@options.ignore_option
@click.option("-a", "--all", is_flag=True, help="Also show equal tensors.")
@click.option("--exact", is_flag=True, help="Read both sides and compare them byte for byte.")
@click.option("--rtol", metavar="X", type=_TOLERANCE, help="Relative tolerance (default: 0).")
@click.option("--atol", metavar="X", type=_TOLERANCE, help="Absolute tolerance (default: 0).")
@click.option("--equal-nan", is_flag=True, help="Treat NaN as equal to NaN.")
@click.option("--stat", is_flag=True, help="Print only totals.")
@click.option("--name-only", is_flag=True, help="Print only names.")
@click.option(
    "--name-status",
    is_flag=True,
    help="Print names with a letter: A added, D removed, R renamed, T type changed, M modified.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print nothing; only set the exit code.")
@click.option(
    "--rename-map",
    metavar="FILE",
    type=click.Path(),
    help="Write detected renames as a map for `ckpt rename` (- for stdout).",
)
@click.option("--force", is_flag=True, help="Replace an existing --rename-map file.")
@click.option(
    "--map",
    metavar="FILE",
    type=click.Path(),
    multiple=True,
    help="Compare tensors of A under the names and layouts of a map (- for stdin).",
)
@click.option("--graph", is_flag=True, help="Compare the MetaGraphs instead of the tensors.")
@click.option("--series", is_flag=True, help="Follow tensors through all checkpoints of folder A.")
@click.option("--collapse", is_flag=True, help="Fold numbered layers into one row.")
@options.jobs_option("Compare")
@options.keys_option
@options.format_options()
@options.pass_settings
def command(
    settings: options.Settings,
    a: str,
    b: str | None,
    selector: Selector,
    ignore: tuple[str, ...],
    all: bool,
    exact: bool,
    rtol: float | None,
    atol: float | None,
    equal_nan: bool,
    stat: bool,
    name_only: bool,
    name_status: bool,
    quiet: bool,
    rename_map: str | None,
    force: bool,
    map: tuple[str, ...],
    graph: bool,
    series: bool,
    collapse: bool,
    jobs: int | None,
    by_key: bool,
    format: str,
) -> int:
    """Show what changed between checkpoints A and B.

    Tensors with the same dtype, shape, size and crc32c count as equal and are not read, except
    with --exact. Equal content under another key is a rename. Exit code 0: no difference, 1:
    differences, 2: something could not be read.
    """
    _refuse_maps(map, rename_map, force=force)
    if exact and (rtol is not None or atol is not None or equal_nan):
        options.refuse_misuse(EXACT_ALONE)
    view = _view(stat, name_only, name_status, format, collapse=collapse)
    for_tensors = any(
        (ignore, exact, rename_map, map, equal_nan, collapse, not selector.selects_all)
    ) or (rtol, atol) != (None, None)
    if graph and (series or for_tensors):
        raise click.UsageError(
            "--graph can be combined only with --all, --quiet, --format and a view"
        )
    if graph or (b is not None and not for_tensors and not series and _are_graph_files(a, b)):
        if b is None:
            raise click.UsageError("--graph needs A and B")
        return _diff_graphs(settings, a, b, format, view=view, everything=all, quiet=quiet)
    if series:
        loose = rtol is not None or atol is not None or equal_nan
        if all or exact or view or rename_map or map or loose or collapse:
            raise click.UsageError(
                "--series can be combined only with patterns, --ignore, --quiet and --format"
            )
        # What stands for B is a pattern as well.
        selector = selector.with_rules(
            [] if b is None else [SelectionRule(b)],
            [SelectionRule(text, include=False) for text in ignore],
        )
        return _follow(settings, a, selector, quiet, format, by_key=by_key)
    bar = settings.progress("comparing")
    before, after = _addresses(a, b)
    locations = locate(before), locate(after)
    for location in locations:
        settings.report(location)
    with bar, Checkpoint(locations[0]) as one, Checkpoint(locations[1]) as other:
        found = diff(
            one,
            other,
            selector,
            ignore=ignore,
            rtol=rtol or 0.0,
            atol=atol or 0.0,
            equal_nan=equal_nan,
            exact=exact,
            everything=all or stat or collapse,
            first_only=quiet and rename_map is None,
            map=map,
            jobs=jobs,
            on_progress=bar,
        )
    if rename_map is not None:
        _write_map(found, rename_map, force=force)
    if not quiet and rename_map != "-":
        everything = all or (settings.verbosity > 0 and not collapse)
        write = write_layers if collapse else partial(render.write_diff, view=view)
        terminal = settings.terminal()
        write(found, format, sys.stdout, terminal, everything=everything, by_key=by_key)
    for problem in found.problems:
        complain(str(problem))
    return {"equal": DONE, "different": NEGATIVE}.get(found.verdict, FAILED)


def _refuse_maps(map: tuple[str, ...], rename_map: str | None, *, force: bool) -> None:
    if map and rename_map is not None:
        raise click.UsageError("--map cannot be combined with --rename-map")
    if force and rename_map in (None, "-"):
        raise click.UsageError("--force needs --rename-map FILE")


def _are_graph_files(*paths: str) -> bool:
    return all(map(is_graph_file, paths))


def _diff_graphs(
    settings: options.Settings,
    a: str,
    b: str,
    format: str,
    *,
    view: str | None,
    everything: bool,
    quiet: bool,
) -> int:
    from ckpttool.query.diff.metagraph import diff_metagraphs
    from ckpttool.render.diff.metagraph import write_graph_diff

    with settings.progress("comparing"):
        found = diff_metagraphs(a, b)
    for warning in found.warnings:
        settings.warn(warning)
    settings.note(f"{a} is the graph file {found.a}")
    settings.note(f"{b} is the graph file {found.b}")
    if not quiet:
        terminal = settings.terminal()
        write_graph_diff(found, format, sys.stdout, terminal, view=view, everything=everything)
    return DONE if found.equal else NEGATIVE


def _view(
    stat: bool, name_only: bool, name_status: bool, format: str, *, collapse: bool
) -> str | None:
    """Return the view that was asked for; None for the whole answer."""
    given = zip(_VIEWS, (stat, name_only, name_status), strict=True)
    views = [name for name, wanted in given if wanted]
    if len(views) > 1 or (views and format not in ("table", "plain")):
        raise click.UsageError(
            "--stat, --name-only and --name-status cannot be combined, and print as table or plain"
        )
    if views and collapse:
        raise click.UsageError(f"--collapse cannot be combined with --{views[0]}")
    return views[0] if views else None


def _addresses(a: str, b: str | None) -> tuple[str, str]:
    """Return what to compare; for a folder alone its latest checkpoint and the one before."""
    if b is not None:
        return a, b
    found = last_two(a)
    if found is None:
        raise click.UsageError(f"'{a}' is not a folder with several checkpoints; give B")
    return found


def _follow(
    settings: options.Settings,
    folder: str,
    selector: Selector,
    quiet: bool,
    format: str,
    *,
    by_key: bool,
) -> int:
    if not os.path.isdir(folder):
        raise click.UsageError(f"--series needs a folder, and '{folder}' is not one")
    with settings.progress("comparing", "checkpoints") as bar:
        found = diff_series(folder, selector, on_progress=bar)
    if not quiet:
        write_series(found, format, sys.stdout, settings.terminal(), by_key=by_key)
    for problem in found.problems:
        complain(str(problem))
    return FAILED if found.problems else NEGATIVE if found.changes else DONE


def _write_map(diff: Diff, path: str, *, force: bool) -> None:
    """Write the renames as a JSON object, which holds names of any characters."""
    if diff.rename_map is None:
        raise UnsupportedError(
            "no renames lead from an object-based checkpoint to a name-based one; "
            "try it the other way round",
            path=diff.a.prefix,
        )
    text = json.dumps(diff.rename_map, indent=2) + "\n"
    if path == "-":
        sys.stdout.write(text)
        return
    save_map(text, path, force=force)
