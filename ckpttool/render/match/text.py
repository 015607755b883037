"""What restoring would do, for people: the verdict, what is not restored, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO, cast

from ckpttool.objects.keys import VARIABLE_VALUE
from ckpttool.printable import printable
from ckpttool.query.diff.results import ScopeMove
from ckpttool.query.match.advice import MOST_WORDS, MatchAdvice
from ckpttool.query.match.plan import (
    MismatchedTensor,
    RenameSuggestion,
    RestorePlan,
    UnresolvedTensor,
)
from ckpttool.render import humanize
from ckpttool.render.console import Terminal
from ckpttool.render.folded import ARROW, fold_moves
from ckpttool.render.jsonout import write_json
from ckpttool.render.match.lines import Leaf, scope_lines, split_slots, value_text
from ckpttool.render.match.rows import write_match_lines, write_match_rows
from ckpttool.render.table import RowFormat
from ckpttool.render.wrap import INDENT, Piece, words, write_flow, write_prose

# Columns of a label; with less room for values, they stand below it.
_LABEL = 27
_ROOMY = 70
# Of more rows of other sorts, the rest is counted.
_SHOWN = 8
_RAISES = {
    "mismatch": "{} another dtype or shape than the program has",
    "missing": "the program asks for values that the checkpoint lacks",
    "optimizer": "the optimizer of the program refuses the slot variables of an older one",
    "container": "a list or dict of the program was changed in a way that cannot be restored",
}


def write_match(
    plan: RestorePlan,
    advice: Sequence[MatchAdvice],
    ignored: int,
    format: str,
    stream: TextIO,
    terminal: Terminal,
    *,
    everything: bool = False,
    named: bool = False,
) -> None:
    """Write what a restore would do.

    Args:
        plan: what it would do.
        advice: what to do about it.
        ignored: how many values were left out.
        format: "json" or one of the row formats.
        stream: where to.
        terminal: what `stream` is.
        everything: also list what is matched.
        named: name every value to people, instead of counting many.
    """
    if format == "json":
        write_json(match_document(plan, advice, ignored), stream)
    elif format == "jsonl":
        write_match_lines(plan, match_document(plan, advice, ignored), stream, matched=everything)
    elif format == "table":
        _PlanText(plan, stream, terminal, named=named).write(advice, ignored, matched=everything)
    else:
        write_match_rows(plan, cast(RowFormat, format), stream, terminal, matched=everything)


def match_document(
    plan: RestorePlan, advice: Sequence[MatchAdvice], ignored: int
) -> dict[str, object]:
    """Return what a restore would do as one object."""
    return {
        **plan.to_dict(),
        "ignored": ignored,
        "advice": [{"text": each.text, "commands": each.commands} for each in advice],
    }


def brief_lines(plan: RestorePlan, advice: Sequence[MatchAdvice]) -> Iterator[str]:
    """Yield the verdict, and what to do, in a line each."""
    word, _, rest = _sentence(plan)
    yield f"{plan.source.prefix} {word} {rest}"
    for each in advice:
        yield " ".join((each.text, "; ".join(each.commands))).rstrip()


class _PlanText:
    """Writes a plan section by section.

    Args:
        plan: the plan.
        stream: where to.
        terminal: what `stream` is.
        named: name every value.
    """

    def __init__(
        self, plan: RestorePlan, stream: TextIO, terminal: Terminal, *, named: bool
    ) -> None:
        self._plan = plan
        self._stream = stream
        self._terminal = terminal
        self._named = named
        self._folded = False
        self._wide = terminal.width is None or terminal.width >= _ROOMY
        dtypes = {each.dtype for each in plan.unresolved} | {each.dtype for each in plan.unmatched}
        self._dtypes = len(dtypes) > 1

    def write(self, advice: Sequence[MatchAdvice], ignored: int, *, matched: bool) -> None:
        """Write all sections that have something to say."""
        plan = self._plan
        self._write_verdict(ignored)
        if matched:
            taken = [(each.target_path, f"({each.via})") for each in plan.matched]
            self._write_leaves("taken", taken, "green")
        self._section("does not fit", self._mismatches(plan.mismatched), "bold red")
        self._section("waiting in the checkpoint", self._waiting(plan.unresolved), "yellow")
        self._section("nothing for the program's", self._lacking(), "yellow")
        unused = [each.rpartition(":") for each in plan.unused_attributes]
        self._write_leaves(
            "not taken by its object",
            [(path, "" if name == VARIABLE_VALUE else f"({name})") for path, _, name in unused],
            "yellow",
        )
        self._write_leaves("no value there for", [(path, "") for path in plan.hollow], "yellow")
        conflicts = [
            f"{each.path}: {each.other_path} gets nothing, {each.target_path} gets it"
            for each in plan.conflicts
        ]
        self._section("one object there, two here", self._shown(conflicts), "yellow")
        if len(plan.suggestions) > MOST_WORDS:  # else a command has them all
            self._section("maybe renamed", self._renamed(plan.suggestions), "cyan")
        assumed = [
            each.text if each.path is None else f"{each.path or 'the root'} {each.text}"
            for each in plan.assumptions
        ]
        self._section("assumed", self._shown(assumed), "cyan")
        if self._folded:
            write_prose("-v names every value", self._stream, self._terminal, style="dim")
        for each in advice:
            self._write_advice(each)

    def _write_verdict(self, ignored: int) -> None:
        plan = self._plan
        word, style, rest = _sentence(plan)
        rest += f"; {humanize.number(ignored)} ignored" if ignored else ""
        head: list[Piece] = [(printable(plan.source.prefix), "")]
        write_flow([*head, (word, style), *words(rest)], self._stream, self._terminal)

    def _write_advice(self, advice: MatchAdvice) -> None:
        self._stream.write("\n")
        write_prose(advice.text, self._stream, self._terminal)
        for command in advice.commands:
            # Never broken, so that it can be copied.
            self._stream.write(INDENT + self._terminal.style(command, "bold") + "\n")

    def _write_leaves(self, label: str, leaves: Sequence[Leaf], style: str) -> None:
        lines, folded = scope_lines(leaves, everything=self._named)
        self._folded |= folded
        self._section(label, lines, style)

    def _section(self, label: str, lines: Sequence[Sequence[str]], style: str) -> None:
        """Write lines of words behind their label, or below it on a narrow terminal."""
        if lines and not self._wide:
            self._stream.write(self._terminal.style(label, style) + "\n")
        for number, line in enumerate(lines):
            pieces: list[Piece] = [(word, "") for word in line]
            if self._wide:
                pieces.insert(0, (f"{'' if number else label:<{_LABEL - 1}}", style))
                write_flow(pieces, self._stream, self._terminal, indent=" " * (_LABEL + 2))
            else:
                pieces[0] = (INDENT + pieces[0][0], "")
                write_flow(pieces, self._stream, self._terminal, indent=INDENT * 2)

    def _renamed(self, rules: Sequence[RenameSuggestion]) -> list[list[str]]:
        """Return renames, those alike as one."""
        moves = [ScopeMove(each.old, each.new, each.tensors, 0) for each in rules]
        left_out = 0
        if not self._named:
            folded, left_out = fold_moves(moves)
            self._folded |= len(folded) < len(moves)
            moves = [*folded]
        lines = [
            [
                printable(f"{move.old}{ARROW}{move.new}:"),
                humanize.counted(move.tensors, "tensor"),
            ]
            for move in moves
        ]
        return [*lines, [f"… {humanize.number(left_out)} more"]] if left_out else lines

    def _shown(self, texts: Sequence[str]) -> list[list[str]]:
        """Return texts as lines of words, the first of many."""
        shown = texts if self._named else texts[:_SHOWN]
        lines = [[word for word, _ in words(printable(text))] for text in shown]
        if len(shown) < len(texts):
            lines.append([f"… {humanize.number(len(texts) - len(shown))} more"])
            self._folded = True
        return lines

    def _mismatches(self, tensors: Sequence[MismatchedTensor]) -> list[list[str]]:
        texts = []
        for each in tensors:
            same = each.path == each.target_path
            name = each.path if same else f"{each.path}{ARROW}{each.target_path}"
            there = value_text(each.dtype, each.shape, dtypes=True)
            here = value_text(each.target_dtype, each.target_shape, dtypes=True)
            texts.append(f"{name}: {there} in the checkpoint, {here} in the program")
        return self._shown(texts)

    def _waiting(self, tensors: Sequence[UnresolvedTensor]) -> list[list[str]]:
        slots = [each for each in tensors if each.kind == "slot"]
        state = [each for each in tensors if each.kind == "optimizer"]
        others = [each for each in tensors if each.kind not in ("slot", "optimizer")]
        lines, folded = scope_lines(
            [(each.path, self._about(each)) for each in others], everything=self._named
        )
        if self._named:
            more = [(each.path, self._about(each)) for each in (*state, *slots)]
            return lines + scope_lines(more, everything=True)[0]
        self._folded |= folded
        paths = {each.path for each in others}
        _, split = split_slots(each.path for each in slots)
        below = sum(variable in paths for variable, _ in split)
        rest = len(slots) - below
        if below:
            lines.append([f"and {humanize.counted(below, 'slot')} of them"])
        if rest:
            what = "slot of other variables" if below or lines else "slot variable"
            plural = what.replace("slot ", "slots ") if below or lines else None
            lines.append([humanize.counted(rest, what, plural)])
        scopes: dict[str, int] = {}
        for each in state:
            scope = each.path.rpartition("/")[0]
            scopes[scope] = scopes.get(scope, 0) + 1
        if len(scopes) > 3:
            scopes = {"": len(state)}
        lines += [
            [humanize.counted(count, "other value"), printable(f"of {scope or 'optimizers'}")]
            for scope, count in scopes.items()
        ]
        self._folded |= bool(slots or state)
        return lines

    def _about(self, tensor: UnresolvedTensor) -> str:
        if tensor.dtype is None:
            return "(not stored)"
        return value_text(tensor.dtype, tensor.shape, dtypes=self._dtypes)

    def _lacking(self) -> list[list[str]]:
        plan = self._plan
        about = {
            each.path: value_text(each.dtype, each.shape, dtypes=self._dtypes)
            for each in plan.unmatched
        }
        objects, slots = split_slots(each.path for each in plan.unmatched)
        if self._named:
            objects, slots = list(about), []
        lines, folded = scope_lines(
            [(path, about[path]) for path in objects], everything=self._named
        )
        self._folded |= folded or bool(slots)
        if slots:
            below = sum(variable in about for variable, _ in slots)
            if below:
                lines.append([f"and {humanize.counted(below, 'slot')} of them"])
            if len(slots) > below:
                lines.append([humanize.counted(len(slots) - below, "slot variable")])
        return lines


def _sentence(plan: RestorePlan) -> tuple[str, str, str]:
    """Return the verdict, its style, and the rest of the sentence."""
    told, verdict = plan.totals, plan.verdict
    if verdict.raises is not None:
        count = humanize.counted(told.mismatched, "tensor has", "tensors have")
        return "cannot be restored:", "bold red", _RAISES[verdict.raises].format(count)
    taken = told.matched - told.unused_attributes
    verb = "is" if 1 in (taken, told.tensors) else "are"
    parts = [f"{humanize.number(taken)} of {humanize.counted(told.tensors, 'value')} {verb} taken"]
    if told.tensors == taken:
        whole = "the one value is" if taken == 1 else f"all {humanize.number(taken)} values are"
        parts = [f"{whole} taken" if taken else "there is nothing to take"]
    counts: Iterable[tuple[int, str, str]] = (
        (told.unresolved, "waits for an object", "wait for objects"),
        (told.unused_attributes, "is not taken by its object", "are not taken by their objects"),
        (told.unmatched, "object gets nothing", "objects get nothing"),
    )
    parts += [humanize.counted(*each) for each in counts if each[0]]
    if told.hollow:
        parts.append(humanize.counted(told.hollow, "object keeps its value", "objects keep theirs"))
    text = ", ".join(parts)
    if verdict.consumed and not told.unresolved:
        return "loads whole:", "green", text
    if verdict.consumed and taken:  # by name, where all else does not count
        return "loads:", "green", text
    if not taken:
        return "does not load:", "yellow" if verdict.consumed else "bold red", text
    if verdict.existing_objects_matched:
        return "loads in part:", "yellow", text
    return "does not load whole:", "bold red", text
