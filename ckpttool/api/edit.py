"""A checkpoint in which some tensors have other values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeAlias

from ckpttool.api.outcome import Outcome, write_plan
from ckpttool.checkpoint.locate import locate
from ckpttool.checkpoint.open import Checkpoint, opened
from ckpttool.errors import CkptError, SelectionError, in_arguments
from ckpttool.printable import unprintable
from ckpttool.storage.paths import StrPath
from ckpttool.surgery.edits.casting import cast as cast_tensors
from ckpttool.surgery.edits.grafting import graft as graft_tensors
from ckpttool.surgery.edits.setting import set_values
from ckpttool.surgery.edits.together import edit_together
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.writing.write import options_to_write

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ckpttool.surgery.edits.setting import Given
    from ckpttool.surgery.writing.write import Writing

NOTHING_TO_EDIT = "nothing to edit: give {set}, {cast} or {graft}"
# Another checkpoint, the scope in it, and the scope that it replaces.
Graft: TypeAlias = "tuple[StrPath | Checkpoint, str, str]"


def edit(
    source: StrPath | Checkpoint,
    destination: StrPath | None = None,
    *,
    set: Mapping[str, Given] | None = None,
    cast: Mapping[str, str] | None = None,
    saturate: bool = False,
    graft: Iterable[Graft] = (),
    **how: Unpack[Writing],
) -> Outcome:
    """Give tensors other values, as `ckpt edit` does.

    All edits apply to the original, in any order; two of one tensor are an error.

    Args:
        source: anything that names a checkpoint, or an open one.
        destination: prefix of the new checkpoint; None goes with `in_place` and `dry_run`.
        set: tensor -> its value, or the path of a `.npy` file (a `pathlib.Path`): of its shape, or
            a scalar that fills it.
        cast: pattern -> TensorFlow's name of a dtype.
        saturate: make numbers that are out of the range of a dtype the nearest that it has.
        graft: (other checkpoint, scope in it, scope that it replaces); "" is all of a checkpoint.
        how: how to write, as `ckpttool.surgery.write` takes it.

    Raises:
        SelectionError: there is nothing to edit, or a pattern selects nothing.
        MissingKeyError: there is no such tensor.
        SurgeryError: a value does not fit, or a tensor gets two.
        DestinationError: there is something at the destination.
        CkptError: something cannot be read or written.

    >>> done = ckpttool.edit("tf_ckpts", "out/half-1", cast={"net/l1/kernel": "bfloat16"})
    >>> [(change.action, str(change.tensor.dtype)) for change in done.changes]
    [('cast', 'bfloat16')]
    """
    if not (set or cast or graft):
        raise SelectionError(in_arguments(NOTHING_TO_EDIT))
    options_to_write(destination, **how)  # refuses what contradicts itself, before a path is read
    with ExitStack() as stack:
        ckpt = stack.enter_context(opened(source, within=how.get("in_place", False)))
        plan = Plan.of(ckpt)
        edited = []
        if set:
            edited.append(set_values(plan, set))
        if cast:
            edited.append(cast_tensors(plan, cast, saturate=saturate))
        for other, theirs, ours in graft:
            edited.append(graft_tensors(plan, stack.enter_context(opened(other)), theirs, ours))
        return write_plan(edit_together(plan, edited), destination, "edit", **how)


def parse_graft(text: str) -> Graft:
    r"""Return what `OTHER:SCOPE=SCOPE` or `OTHER:SCOPE` says, the second scope as the first.

    A colon may be in the path, and in names: the first one counts before which there is a
    checkpoint. An equals sign in the first scope is spelled `\x3d`.

    Raises:
        SelectionError: it is not of that form.
        CkptError: there is no such checkpoint.
    """
    parts = text.split(":")
    failure: CkptError | None = None
    for at in range(1, len(parts)):
        other, scopes = ":".join(parts[:at]), ":".join(parts[at:])
        try:
            locate(other)
        except CkptError as error:
            failure = failure or error
            continue
        theirs, equals, ours = map(unprintable, scopes.partition("="))
        return other, theirs, ours if equals else theirs
    if failure is not None:
        raise failure
    raise SelectionError(f"'{text}' is not OTHER:SCOPE=SCOPE, such as 'old/ckpt-9:net/l1=net/l2'")
