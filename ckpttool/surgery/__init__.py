"""Changing checkpoints: what to change is planned first, and written in one place.

    with ckpttool.open_checkpoint("tf_ckpts") as ckpt:
        plan = surgery.Plan.of(ckpt)
        plan = surgery.rename(surgery.prune(plan, slots=True), {"net": "model"})
        surgery.write(plan, "out/ckpt-4")

Each name is resolved on first use. No module has the name of a function: importing a submodule
binds its name in the package.

plan        the checkpoint to be written, with the list of changes
values      what a plan computes in place of bytes of its source
rules       rename rules, and the first of many that matches a name
maps        other names for tensors and, for other libraries, other layouts
tables      rename tables that come with the package
renaming    renaming the tensors of a plan
edge_notes  notes on changes of the graph that no key shows
repetition  rules that match their own results, where a run was cut short
choosing    tensors chosen by patterns
pruning     dropping tensors from a plan
edits       giving tensors other values
averaging   the mean of several checkpoints
flattening  giving an object-based plan the names of TensorFlow 1
like        a name-based plan with the object graph of another checkpoint
convert     checkpoints of old forms brought up to date
session_bundle  a SessionBundle export made a SavedModel
importing   a plan for a checkpoint made of a file of another program
exporting   tensors as files of other formats
writing     writing a plan
retention   deleting the checkpoints of a folder that a manager would delete
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ckpttool.surgery.averaging import average
    from ckpttool.surgery.edits.casting import cast
    from ckpttool.surgery.edits.grafting import graft
    from ckpttool.surgery.edits.setting import set_values
    from ckpttool.surgery.flattening import flatten
    from ckpttool.surgery.like.reference import follow
    from ckpttool.surgery.maps.layouts import apply_map
    from ckpttool.surgery.maps.reading import read_map
    from ckpttool.surgery.plan import Change, Plan
    from ckpttool.surgery.pruning import prune
    from ckpttool.surgery.renaming import promote_averages, rename
    from ckpttool.surgery.rules import (
        MoveRule,
        PrefixRule,
        StripPrefixRule,
        SubstituteRule,
        TensorRule,
        parse_move,
        parse_substitution,
    )
    from ckpttool.surgery.tables import list_tables, load_table
    from ckpttool.surgery.writing.receipt import Receipt, ShardReceipt
    from ckpttool.surgery.writing.write import write

__all__ = [
    "Change",
    "MoveRule",
    "Plan",
    "PrefixRule",
    "Receipt",
    "ShardReceipt",
    "StripPrefixRule",
    "SubstituteRule",
    "TensorRule",
    "apply_map",
    "average",
    "cast",
    "flatten",
    "follow",
    "graft",
    "list_tables",
    "load_table",
    "parse_move",
    "parse_substitution",
    "promote_averages",
    "prune",
    "read_map",
    "rename",
    "set_values",
    "write",
]

_HOMES = {
    "Change": "plan",
    "MoveRule": "rules",
    "Plan": "plan",
    "PrefixRule": "rules",
    "Receipt": "writing.receipt",
    "ShardReceipt": "writing.receipt",
    "StripPrefixRule": "rules",
    "SubstituteRule": "rules",
    "TensorRule": "rules",
    "apply_map": "maps.layouts",
    "average": "averaging",
    "cast": "edits.casting",
    "flatten": "flattening",
    "follow": "like.reference",
    "graft": "edits.grafting",
    "list_tables": "tables",
    "load_table": "tables",
    "parse_move": "rules",
    "parse_substitution": "rules",
    "promote_averages": "renaming",
    "prune": "pruning",
    "read_map": "maps.reading",
    "rename": "renaming",
    "set_values": "edits.setting",
    "write": "writing.write",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
