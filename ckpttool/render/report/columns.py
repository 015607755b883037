"""The tensors of a report by columns, as the script of the page takes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TypeVar

from ckpttool.printable import printable
from ckpttool.query.report.facts import ReportFacts
from ckpttool.query.report.values import Measured, bin_heights
from ckpttool.query.rows import short_name

_T = TypeVar("_T")
_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False)
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"
# JavaScript has no other numbers than float64.
_EXACT = 1 << 53
# What would end the element that the data stand in; the other two are written so by any encoder of
# ASCII.
_ESCAPES = str.maketrans({"<": r"\u003c", ">": r"\u003e", "&": r"\u0026"})


def page_data(facts: ReportFacts, title: str) -> str:
    """Return the tensors as JSON that may stand in a script element.

    Names are spelled as on a terminal, so that what is copied selects the tensor.

    Args:
        facts: the facts of the report.
        title: what the whole is called.
    """
    rows, layers = facts.rows, facts.layers
    names = [printable(short_name(row)) for row in rows]
    keys = [printable(row.key) for row in rows]
    dtypes, dtype = _numbered(row.dtype for row in rows)
    shapes, shape = _numbered(row.shape for row in rows)
    kinds, kind = _numbered(row.kind for row in rows)
    data: dict[str, object] = {
        "title": printable(title),
        "tensors": facts.tensors,
        "cut": facts.totals.tensors > len(rows),
        "values": facts.values,
        "names": names,
        "keys": [_key(name, key) for name, key in zip(names, keys, strict=True)],
        "dtypes": dtypes,
        "dtype": dtype,
        "shapes": shapes,
        "shape": shape,
        "kinds": kinds,
        "kind": kind,
        "bytes": [row.bytes for row in rows],
        "crc32c": [row.crc32c for row in rows],
        "errors": {
            str(at): str(each.error)
            for at, each in enumerate(facts.measured)
            if each.error is not None
        },
        "layers": None
        if layers is None
        else {
            "rows": [printable(name) for name in layers.names],
            "columns": layers.columns,
            "cells": layers.cells,
            "left_out": layers.left_out,
        },
    }
    if facts.values:
        data |= _values(facts.measured)
    return _ENCODER.encode(data).translate(_ESCAPES)


def _values(measured: Sequence[Measured]) -> dict[str, object]:
    found = [each.statistics for each in measured]
    ofs, of = _numbered(None if each is None else each.of for each in found)
    return {
        "ofs": ofs,
        "of": [None if ofs[number] is None else number for number in of],
        "min": [None if each is None else _short(each.min) for each in found],
        "mean": [None if each is None else _short(each.mean) for each in found],
        "std": [None if each is None else _short(each.std) for each in found],
        "max": [None if each is None else _short(each.max) for each in found],
        "zeros": [None if each is None else each.zeros for each in found],
        "nan": [0 if each is None else each.nan for each in found],
        "inf": [0 if each is None else each.inf for each in found],
        "hist": [_bars(each) for each in measured],
        "sampled": [at for at, each in enumerate(measured) if each.histogram and each.sampled],
    }


def _numbered(values: Iterable[_T]) -> tuple[list[_T], list[int]]:
    """Return the different values, and for each value its place among them."""
    known: dict[_T, int] = {}
    places = [known.setdefault(value, len(known)) for value in values]
    return list(known), places


def _key(name: str, key: str) -> str | int:
    """Return a key; 0 if it is the name, 1 if it is the name and the usual ending."""
    return 0 if key == name else 1 if key == name + _SUFFIX else key


def _short(value: int | float | None) -> object:
    """Return a number to six digits; a whole one exactly."""
    if isinstance(value, int):
        return value if -_EXACT < value < _EXACT else str(value)
    return None if value is None else float(f"{value:.6g}")


def _bars(measured: Measured) -> str | None:
    if measured.histogram is None:
        return None
    return "".join(_DIGITS[height] for height in bin_heights(measured.histogram))
