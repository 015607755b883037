"""The kinds of the datasets of a file of Keras, by their paths."""

from __future__ import annotations

from collections.abc import Mapping

from ckpttool.checkpoint.kinds.rules import INTEGERS, Described, Kind, is_scalar

_OPTIMIZERS = ("optimizer/vars/", "optimizer_weights/")
_SEEDS = "seed_generator"


def kinds_from_datasets(entries: Mapping[str, Described]) -> dict[str, Kind]:
    """Return the kind of each dataset: the state of an optimizer has a group of its own."""
    return {path: _kind(path, entry) for path, entry in entries.items()}


def _kind(path: str, entry: Described) -> Kind:
    if path.startswith(_OPTIMIZERS):
        if entry.shape:
            return "slot"
        return "step" if is_scalar(entry, INTEGERS) else "optimizer"
    return "other" if any(part.startswith(_SEEDS) for part in path.split("/")) else "weight"
