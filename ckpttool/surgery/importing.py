"""A plan for a checkpoint made of a file of another program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ckpttool.checkpoint.nearest import quoted
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.errors import SurgeryError, UnsupportedError
from ckpttool.interchange.entry import ArrayEntry
from ckpttool.interchange.reader import ArrayReader
from ckpttool.surgery.edits.casting import cast
from ckpttool.surgery.like.reference import follow
from ckpttool.surgery.maps.layouts import apply_map
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.rules import RenameRule

if TYPE_CHECKING:
    from ckpttool.surgery.maps.torch_draft import MapDraft


def plan_import(
    source: Checkpoint,
    *,
    like: Checkpoint | None = None,
    rules: Sequence[RenameRule] = (),
    dtypes: Mapping[str, str] | None = None,
    saturate: bool = False,
    number: int = 1,
    accept_order: bool = False,
) -> tuple[Plan, MapDraft | None]:
    """Return the plan for a checkpoint of the tensors of a file, and how its layers were paired.

    With `like` and no rules a file of Keras is paired with it, since its names do not tell.

    Args:
        source: the open file.
        like: an object-based checkpoint whose objects the tensors become part of.
        rules: names, and layouts, in place of those in the file.
        dtypes: other dtypes, by patterns of names in the file.
        saturate: whether what is out of range of such a dtype becomes the nearest that it has.
        number: of the result among the checkpoints of its program, for the save counter of `like`.
        accept_order: whether layers of Keras with the same shapes may be paired by their order.

    Raises:
        SelectionError: layers of Keras have no counterpart, or only their order tells.
        SurgeryError: the source is a checkpoint already, or has no tensors.
        UnsupportedError: a tensor has a dtype that TensorFlow does not have; all are named.
        CkptError: as of maps, casts and following a reference.
    """
    if not isinstance(source.reader, ArrayReader):
        raise SurgeryError(
            f"already a checkpoint of TensorFlow, of format {source.generation}",
            path=source.location.typed,
        )
    for error in source.damaged.values():
        raise error
    if "" in source.entries:
        raise UnsupportedError(
            "a tensor has an empty name, and no key is empty", path=source.prefix
        )
    plan = Plan.of(source)
    _refuse_unreadable(plan)
    if not plan.tensors:
        raise SurgeryError("there are no tensors in it", path=source.prefix)
    if dtypes:
        plan = cast(plan, dtypes, saturate=saturate)
    if rules:
        plan = apply_map(plan, rules)
    if like is None:
        return plan, None
    if source.generation != "h5" or rules:
        return follow(plan, like, save_counter=number), None
    from ckpttool.surgery.maps.keras_pairing import pair_with_keras, places_of

    draft = pair_with_keras(plan, like, accept_order=accept_order)
    return follow(plan, like, places_of(draft, like), save_counter=number), draft


def _refuse_unreadable(plan: Plan) -> None:
    by_reason: dict[str, list[str]] = {}
    for tensor in plan.tensors:
        entry = tensor.entry
        if isinstance(entry, ArrayEntry) and entry.unreadable:
            by_reason.setdefault(entry.unreadable, []).append(tensor.source_key)
    if by_reason:
        parts = (f"{reason}: {quoted(names)}" for reason, names in by_reason.items())
        raise UnsupportedError("; ".join(parts), path=plan.source.prefix)
