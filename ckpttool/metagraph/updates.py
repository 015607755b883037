"""The variables of optimizers, found by the operations that update trained variables.

The inputs of an update are first the variable that it changes, then the slot variables of the
optimizer, then hyper-parameters and the gradient, in an order that depends on the operation.
Hyper-parameters can be variables too, such as Adam's powers of beta.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ckpttool import pb

# Prefixes for the kind of variable, and for updates of some rows.
_PREFIXES = ("", "Sparse", "Resource", "ResourceSparse")
# By the rest of the name: the number of slots after the variable, and where hyper-parameters are.
_INPUTS: dict[str, tuple[int, range]] = {
    "ApplyGradientDescent": (0, range(1, 2)),
    "ApplyProximalGradientDescent": (0, range(1, 4)),
    "ApplyMomentum": (1, range(2, 3)),
    "ApplyKerasMomentum": (1, range(2, 3)),
    "ApplyAdagrad": (1, range(2, 3)),
    "ApplyAdagradV2": (1, range(2, 4)),
    "ApplyProximalAdagrad": (1, range(2, 5)),
    "ApplyAdagradDA": (2, range(4, 7)),
    "ApplyAdadelta": (2, range(3, 6)),
    "ApplyFtrl": (2, range(4, 8)),
    "ApplyFtrlV2": (2, range(4, 9)),
    "ApplyRMSProp": (2, range(3, 7)),
    "ApplyCenteredRMSProp": (3, range(4, 8)),
    "ApplyAdam": (2, range(3, 9)),
    "ApplyAdaMax": (2, range(3, 8)),
    "ApplyAdamWithAmsgrad": (3, range(4, 10)),
    "ApplyAddSign": (1, range(2, 6)),
    "ApplyPowerSign": (1, range(2, 6)),
}
# Only in these sparse forms the gradient comes before the hyper-parameters.
_OTHER_ORDER: dict[str, tuple[int, range]] = {
    "SparseApplyAdagradDA": (2, range(5, 8)),
    "SparseApplyFtrl": (2, range(5, 9)),
    "SparseApplyFtrlV2": (2, range(5, 10)),
}
UPDATES: dict[str, tuple[int, range]] = {
    f"{prefix}{name}": inputs for prefix in _PREFIXES for name, inputs in _INPUTS.items()
} | {f"{prefix}{name}": at for prefix in ("", "Resource") for name, at in _OTHER_ORDER.items()}
VARIABLE_OPS = frozenset({"Variable", "VariableV2", "VarHandleOp", "AutoReloadVariable"})
# Operations that pass a variable, or its value, on unchanged.
_CARRIERS = frozenset({"Identity", "ReadVariableOp", "Enter", "RefEnter", "Switch", "RefSwitch"})
_LONGEST = 16  # of a chain of these


@dataclass(frozen=True, slots=True)
class Update:
    """An update by an optimizer; variables are named by their nodes.

    Attributes:
        op: the operation.
        variable: the variable that it changes.
        slots: the optimizer's slot variables for it.
        parameters: hyper-parameters that are variables.
    """

    op: str
    variable: str
    slots: tuple[str, ...]
    parameters: tuple[str, ...]


def optimizer_updates(nodes: Mapping[str, pb.NodeDef]) -> Iterator[Update]:
    """Yield the updates in a graph, given by its nodes."""
    for node in nodes.values():
        place = UPDATES.get(node.op)
        if place is None or not node.input:
            continue
        count, parameters = place
        variable, *slots = (source_variable(nodes, name) for name in node.input[: count + 1])
        if variable is None:
            continue
        found = [source_variable(nodes, name) for name in node.input[parameters.start :]]
        yield Update(
            node.op,
            variable,
            tuple(name for name in slots if name is not None),
            tuple(name for name in found[: len(parameters)] if name is not None),
        )


def source_variable(nodes: Mapping[str, pb.NodeDef], name: str) -> str | None:
    """Return the node of the variable, or of its value, behind an input; None if there is none."""
    for _ in range(_LONGEST):
        node = nodes.get(name.partition(":")[0])
        if node is None:
            return None
        if node.op in VARIABLE_OPS:
            return node.name
        if node.op not in _CARRIERS or not node.input:
            return None
        name = node.input[0]
    return None
