"""The rename tables that come with the package.

Each is a file in `rename_tables`: the first line gives its purpose after `#`; every other line that
is not empty and does not begin with `#` has a regular expression and its replacement, separated by
a tab. The lines are applied in order, each to the result of the one before.
"""

from __future__ import annotations

from pathlib import Path

from ckpttool.checkpoint.nearest import nearest, quoted
from ckpttool.errors import SelectionError
from ckpttool.surgery.rules import TableRule, parse_substitution

_FOLDER = Path(__file__).parent / "rename_tables"
_ENDING = ".tsv"


def list_tables() -> list[tuple[str, str]]:
    """Return the name and purpose of every table."""
    return [
        (path.stem, path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# "))
        for path in sorted(_FOLDER.glob(f"*{_ENDING}"), key=lambda path: path.stem)
    ]


def load_table(name: str) -> TableRule:
    """Return a table as a rule; `SelectionError` if there is none of that name."""
    names = [known for known, _ in list_tables()]
    if name not in names:
        near = nearest(name, names, limit=1) or names
        raise SelectionError(f"unknown table '{name}'; nearest: {quoted(near)}")
    text = (_FOLDER / f"{name}{_ENDING}").read_text(encoding="utf-8")
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    return TableRule(name, tuple(parse_substitution(*line.split("\t")) for line in lines))
