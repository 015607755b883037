"""Rules that match their own results, applied again to a folder where a run was cut short.

A run in place that is killed leaves some checkpoints of the folder with new names. Most rules find
nothing in those; a prefix would be put there twice, and two names that were swapped would be
swapped back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from ckpttool.errors import SurgeryError
from ckpttool.surgery.plan import Plan, PlannedTensor


def refuse_repetition(plans: Sequence[Plan]) -> None:
    """Refuse plans, made by the same rules to be written in place, if some may be done already.

    Raises:
        SurgeryError: the rules would rename what has a name by them, as far as a checkpoint beside
            it shows; or nothing could show it, as they only make tensors alike change places.
    """
    if len(plans) < 2:
        return
    given: dict[str, str] = {}
    placed: dict[tuple[object, ...], str] = {}
    renamings = [_Renaming(plan) for plan in plans]
    for each in renamings:
        held, shows = {tensor.source_key: tensor for tensor in each.plan.tensors}, False
        for tensor in each.moved:
            other = held.get(tensor.key)
            if other is None:
                given.setdefault(tensor.key, each.prefix)
            elif each.looks(tensor) != each.looks(other):
                placed.setdefault((tensor.key, *each.looks(tensor)), each.prefix)
            else:
                continue
            shows = True
        if each.moved and not shows:
            raise SurgeryError(
                "tensors only change places, so that nothing would show which checkpoints are done"
                " if the run is cut short; write them to another folder instead",
                path=each.prefix,
            )
    for each in renamings:
        for tensor in each.moved:
            key = tensor.source_key
            model = given.get(key)
            if model is None and placed:
                model = placed.get((key, *each.looks(tensor)))
            if model is not None:
                raise SurgeryError(
                    f"the rules make this of another tensor in '{model}': one of the two may be"
                    " done already, by a run that was cut short; change those that are left one by"
                    " one",
                    path=each.prefix,
                    key=key,
                )


class _Renaming:
    """The tensors of a plan that get other names, and what tells them apart."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.prefix = plan.source.prefix
        self.moved = [each for each in plan.tensors if each.key != each.source_key]

    @cached_property
    def _names(self) -> Mapping[str, str]:
        return {} if self.plan.graph is None else self.plan.graph.full_names()

    def looks(self, tensor: PlannedTensor) -> tuple[object, ...]:
        """Return what all checkpoints of a program have in common, which values are not."""
        return tensor.dtype, tensor.shape, self._names.get(tensor.key)
