"""The colours of drawings: blue for weights, orange for slot variables, red for optimizers.

These are the colours of TensorFlow's guide to checkpoints. Each look also has a shape or a border
of its own, for colour-blind eyes and for print.
"""

from __future__ import annotations

from typing import NamedTuple

from ckpttool.query.drawing.outline import Look


class Paint(NamedTuple):
    """Border and fill on a light ground and on a dark one."""

    border: str
    fill: str
    dark_border: str
    dark_fill: str


class Ink(NamedTuple):
    """A colour on a light ground and on a dark one."""

    light: str
    dark: str


GROUND = Ink("#ffffff", "#0d1117")
TEXT = Ink("#1f2328", "#e6edf3")
DIM = Ink("#59636e", "#9aa4af")
EDGE = Ink("#8c959f", "#6e7681")

_PLAIN = ("#f6f8fa", "#161b22")
PAINTS: dict[Look, Paint] = {
    "root": Paint("#6e7781", _PLAIN[0], "#8b949e", _PLAIN[1]),
    "object": Paint("#6e7781", _PLAIN[0], "#8b949e", _PLAIN[1]),
    "weight": Paint("#0a65ad", "#dbeafa", "#58a6ff", "#0c2d54"),
    "slot": Paint("#9a6700", "#fff3d1", "#e3b341", "#3a2d08"),
    "optimizer": Paint("#bc3a0e", "#fde4dc", "#ff8a65", "#4a1c10"),
    "hyper-parameter": Paint("#bc3a0e", _PLAIN[0], "#ff8a65", _PLAIN[1]),
    "step": Paint("#0a65ad", _PLAIN[0], "#58a6ff", _PLAIN[1]),
    "ema": Paint("#0b7a55", "#d8f3e8", "#56d3a0", "#0b3a2a"),
    "other": Paint("#7b4fa0", "#f0e8f7", "#c9a5ec", "#33234a"),
}


class Flat(NamedTuple):
    """Border and fill for a node that carries its own ground, good for light and dark pages."""

    border: str
    fill: str
    width: float = 1.0


FLAT_INK = "#202124"
FLAT: dict[Look, Flat] = {
    "root": Flat("#5f6368", "#e8eaed", 2.2),
    "object": Flat("#80868b", "#f4f5f6"),
    "weight": Flat("#0a65ad", "#d6e8f7", 1.6),
    "slot": Flat("#b26a00", "#fdebc8"),
    "optimizer": Flat("#c5340a", "#fbd9d0", 1.8),
    "hyper-parameter": Flat("#c5340a", "#fdeee9"),
    "step": Flat("#0a65ad", "#f4f5f6"),
    "ema": Flat("#007a55", "#d9f2e9"),
    "other": Flat("#7b4fa0", "#eee6f4"),
}

# Areas on pages, by kind of tensor: white text is legible on them, dark text on slots and averages.
# They stay apart for colour-blind eyes; steps are grey like all others, for want of a fifth.
AREA_REST = Ink("#59636e", "#59636f")
AREAS: dict[str, Ink] = {
    "weight": Ink("#2f78bd", "#2b6cb0"),
    "slot": Ink("#e3b23c", "#c99a2a"),
    "optimizer": Ink("#c4502d", "#b0472a"),
    "ema": Ink("#5cc29a", "#5cc29a"),
}
