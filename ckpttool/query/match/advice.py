"""What to do about a checkpoint that does not load: commands, and changes of the program."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Set
from dataclasses import dataclass, replace
from shlex import quote

from ckpttool.objects.keys import OPTIMIZER_SLOT
from ckpttool.printable import printable
from ckpttool.query.match.plan import RestorePlan
from ckpttool.query.match.programs import SAVE_COUNTER

FRESH = "tf.train.Checkpoint(net=net).write('fresh')"
# Rules and patterns on a command line; more are written to a file.
MOST_WORDS = 8
_MAP = "renames.json"
# Formats that TensorFlow restores.
_RESTORED = ("V1", "V2")
# Scopes that are tried as the one below which everything is.
_MOST_SCOPES = 12
# Path, dtype and shape of a value.
_Leaf = tuple[str, object, object]
_SPECIAL = re.compile(r"^[=@-]|^re:|[*?\[\]{}]")


@dataclass(frozen=True, slots=True)
class MatchAdvice:
    """A thing to do.

    Attributes:
        text: what, and why.
        commands: to run, as typed in a shell.
    """

    text: str
    commands: tuple[str, ...] = ()


def advise(plan: RestorePlan) -> tuple[MatchAdvice, ...]:
    """Return what may help; at least one thing if the checkpoint does not load whole."""
    found = [*_all_advice(plan)]
    if not found and not plan.verdict.consumed:
        found.append(MatchAdvice(f"Check that TARGET is what the program writes now: {FRESH}."))
    return tuple(found)


def _all_advice(plan: RestorePlan) -> Iterator[MatchAdvice]:
    if _are_same(plan.source.prefix, plan.target.prefix):
        yield MatchAdvice(
            "CHECKPOINT and TARGET are the same, which says nothing about the program. Let the "
            f"program write one before it restores: {FRESH}."
        )
    if not _has_values(plan):
        yield MatchAdvice(
            "The program has no values to restore. Keras makes those of a layer when it is called "
            f"first: call the model, and let the program write again: {FRESH}."
        )
        return
    if plan.source.generation not in _RESTORED:
        yield _about_foreign(plan)
        return
    roots = [*_about_roots(plan)] if plan.verdict.raises is None else []
    yield from roots
    if plan.conflicts:
        yield MatchAdvice(
            "What is one object in the checkpoint is two in the program, and only the first gets "
            "its values. Let the program share one object, as it did when it saved."
        )
    if _renames_help(plan):
        # First, whatever else there is: the rest shows when this is done.
        yield MatchAdvice(
            "Maybe renamed. Rename, and match again:",
            (*rename_commands(plan), _match_line(plan, "NEW", _path(plan.target.path))),
        )
    elif plan.verdict.raises is not None:
        yield from _about_errors(plan)
    elif not plan.verdict.consumed and not roots:
        yield from _about_rests(plan)
    if plan.hollow:
        yield MatchAdvice(
            "Objects without a value in the checkpoint were saved before they had one, such as "
            "layers that were not built. They keep the values that they have."
        )


def _renames_help(plan: RestorePlan) -> bool:
    """Tell whether to rename; the state of an optimizer is converted instead if that is needed."""
    weights = any(each.kind not in ("slot", "optimizer") for each in plan.unresolved)
    return bool(plan.suggestions) and (weights or plan.verdict.raises != "optimizer")


def _about_foreign(plan: RestorePlan) -> MatchAdvice:
    """Return what to do about a file of another library."""
    source, target = _path(plan.source.path), _path(plan.target.path)
    like = ["--like", target] if plan.target.style == "object" else []
    return MatchAdvice(
        f"TensorFlow restores no {plan.source.generation}. Make a checkpoint of it first:",
        (
            shell_line("import", source, *like, "-o", "NEW"),
            _match_line(plan, "NEW", target),
        ),
    )


def _about_errors(plan: RestorePlan) -> Iterator[MatchAdvice]:
    source, raises = _path(plan.source.path), plan.verdict.raises
    if raises == "mismatch":
        paths = [each.path for each in plan.mismatched]
        drop = [word for path in paths[:MOST_WORDS] for word in ("--drop", _pattern(path))]
        few = len(paths) <= MOST_WORDS
        yield MatchAdvice(
            "Give the objects of the program the dtypes and shapes of the checkpoint. Or drop "
            "the tensors, if the program is to train these objects anew"
            + (":" if few else ", with 'ckpt prune'."),
            (shell_line("prune", source, *drop, "-o", "NEW"),) if few else (),
        )
    elif raises == "optimizer":
        text = "The optimizer of the program is newer than the one that was saved. "
        if plan.target.kind == "checkpoint":
            yield MatchAdvice(
                text + "Convert its state:",
                (
                    shell_line(
                        "convert-legacy", source, "--like", _path(plan.target.path), "-o", "NEW"
                    ),
                ),
            )
            text = "Or restore "
        else:
            text += "Restore "
        yield MatchAdvice(
            text + "the weights alone:", (shell_line("prune", source, "--optimizer", "-o", "NEW"),)
        )
    elif raises == "missing" and plan.target.style == "name" and plan.source.style == "object":
        yield MatchAdvice(
            "The program restores by names, and this checkpoint has objects. One with names alone:",
            (shell_line("convert-legacy", source, "--to", "name-based", "-o", "NEW"),),
        )
    elif raises == "missing" and plan.source.style == "name":
        yield MatchAdvice(
            "A Saver restores all of its variables or none. Rename what has another name in the "
            "checkpoint, or give the Saver only variables that the checkpoint has."
        )
    elif raises == "missing":
        yield MatchAdvice(
            "The checkpoint has the objects, but not these values of them. See what they saved:",
            (shell_line("ls", source, "--tree"),),
        )
    elif raises == "container":
        yield MatchAdvice(
            "In the program, only append to lists and dicts that hold variables, or keep them out "
            "of checkpoints with NoDependency."
        )


def _about_roots(plan: RestorePlan) -> Iterator[MatchAdvice]:
    """Recognise that the one has at its root what the other has in an object below it."""
    if plan.target.style != "object" or plan.source.style != "object":
        return
    waiting: set[_Leaf] = {
        (each.path, each.dtype, each.shape)
        for each in plan.unresolved
        if each.kind not in ("slot", "optimizer")
    }
    lacking: set[_Leaf] = {(each.path, each.dtype, each.shape) for each in plan.unmatched}
    scope = _scope_of(waiting, lacking)
    if scope is not None:
        how = f"Checkpoint({scope}=net)" if scope.isidentifier() else f"an object '{scope}'"
        yield MatchAdvice(
            f"The checkpoint has below '{printable(scope)}' what the program has at its root. "
            f"Restore with {printable(how)} in the program, where net is the root now."
        )
    scope = _scope_of(lacking, waiting)
    if scope is not None:
        yield MatchAdvice(
            f"The checkpoint has at its root what the program has below '{printable(scope)}': "
            f"save_weights and Checkpoint(net) write it so. Restore with Checkpoint(net).read(…) "
            f"in the program, where net is its object '{printable(scope)}'."
        )


def _scope_of(these: Set[_Leaf], others: Set[_Leaf]) -> str | None:
    """Return the scope without which at least half of the leaves are others; None without one."""
    if not these or not others:
        return None
    scopes: dict[str, None] = {}
    for path, *_ in sorted(these, key=lambda leaf: leaf[0]):
        for at, char in enumerate(path):
            if char == "/" and len(scopes) < _MOST_SCOPES:
                scopes[path[:at]] = None
    for scope in scopes:
        start = len(scope) + 1
        moved = {
            (path[start:], dtype, shape)
            for path, dtype, shape in these
            if path.startswith(scope + "/")
        }
        if 2 * len(moved & others) > len(these):
            return scope
    return None


def _about_rests(plan: RestorePlan) -> Iterator[MatchAdvice]:
    source, target = _path(plan.source.path), _path(plan.target.path)
    told = plan.totals
    left = {each.path for each in plan.unresolved}
    lacking = {each.path for each in plan.unmatched}
    if SAVE_COUNTER in lacking and plan.mode == "read":
        yield MatchAdvice(
            "The program has a save counter, and the checkpoint has none. That does no harm: the "
            "program goes on counting."
        )
    elif SAVE_COUNTER in lacking:
        yield MatchAdvice(
            "The checkpoint has no save counter: Checkpoint.write leaves none. Read it with "
            "Checkpoint.read:",
            (_match_line(replace(plan, mode="read"), source, target),),
        )
    if plan.mode == "read" and SAVE_COUNTER in left:
        yield MatchAdvice(
            "Checkpoint.read leaves the save counter in the checkpoint. Restore it with "
            "Checkpoint.restore:",
            (_match_line(replace(plan, mode="restore"), source, target),),
        )
    if left | lacking <= {SAVE_COUNTER}:
        pass
    elif told.unresolved and not told.unmatched:
        state = all(each.kind in ("slot", "optimizer") for each in plan.unresolved)
        if state:
            yield MatchAdvice(
                "The program gets all that it has, and lacks the optimizer that was saved, or has "
                "not built it yet. A checkpoint without its state:",
                (shell_line("prune", source, "--optimizer", "-o", "NEW"),),
            )
        yield MatchAdvice(
            "If what waits is not wanted, call expect_partial() on the status of the restore. To "
            "check only that all objects of the program get their values:",
            (_match_line(plan, source, target, "--partial"),),
        )
    elif told.unmatched and not told.unresolved and told.matched:
        slots = all(f"/{OPTIMIZER_SLOT}/" in each.path for each in plan.unmatched)
        what = "The slot variables of the program" if slots else "These objects of the program"
        yield MatchAdvice(
            f"{what} keep the values that they have. If that is meant, call expect_partial() on "
            "the status of the restore."
        )
        if plan.target.kind == "checkpoint" and not slots:
            yield MatchAdvice(
                f"If {source} was written by the program, and {target} is to be loaded, it is the "
                "other way round:",
                (_match_line(plan, target, source),),
            )
    elif told.unmatched and plan.source.style == "name" and plan.target.style == "object":
        yield MatchAdvice(
            "The checkpoint has names alone, and the variables of the program have others. Rename "
            "them with 'ckpt rename', or convert with a map of names; this says what it has to "
            "have:",
            (shell_line("convert-legacy", source, "--like", target, "--dry-run"),),
        )
    elif told.unmatched:
        yield MatchAdvice(
            f"If TARGET is not what the program writes now, write it: {FRESH}. If names differ in "
            "a way that no scope shows, give 'ckpt rename' your own rules."
        )


def rename_commands(plan: RestorePlan) -> tuple[str, ...]:
    """Return the commands that rename as a plan suggests."""
    source = _path(plan.source.path)
    rules = [f"{_old(each.old)}={printable(each.new)}" for each in plan.suggestions]
    if len(rules) <= MOST_WORDS:
        return (shell_line("rename", source, *map(quote, rules), "-o", "NEW"),)
    return (
        _match_line(plan, source, _path(plan.target.path), "--rename-map", _MAP),
        shell_line("rename", source, "--map", _MAP, "-o", "NEW"),
    )


def _has_values(plan: RestorePlan) -> bool:
    """Tell whether the program has values, besides the save counter."""
    here = [each.target_path for each in plan.matched]
    here += [each.path for each in plan.unmatched]
    return not plan.totals.tensors or any(path != SAVE_COUNTER for path in (*here, *plan.hollow))


def _are_same(one: str, other: str | None) -> bool:
    return other is not None and os.path.realpath(one) == os.path.realpath(other)


def _match_line(plan: RestorePlan, source: str, target: str, *words: str) -> str:
    """Return the line that matches in the same way."""
    options = ["--read"] if plan.mode == "read" else []
    options += ["--skip-slots"] if plan.skip_slots else []
    return shell_line("match", source, target, *options, *words)


def shell_line(name: str, *words: str) -> str:
    """Return a command line of words that are quoted already."""
    return " ".join(("ckpt", name, *words))


def _path(path: str | None) -> str:
    """Return a path as a word; TARGET for one that is not known, as of a program's objects."""
    if path is None:
        return "TARGET"
    text = printable(path)
    if text != path:  # which a shell understands in this kind of quotes
        text = text.replace("'", "\\'")
        return f"$'{text}'"
    return quote(f"./{path}" if path.startswith("-") else path)


def _pattern(path: str) -> str:
    """Return a pattern that selects a path, as a word."""
    text = printable(path)
    return quote(f"={text}" if _SPECIAL.search(text) else text)


def _old(path: str) -> str:
    """Return a name as the first part of a rule, without what would end it or begin an option."""
    text = printable(path).replace("=", "\\x3d")
    return f"\\x2d{text[1:]}" if text.startswith("-") else text
