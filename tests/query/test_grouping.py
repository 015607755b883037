"""Sums by scope and folded numbers, on rows made by hand."""

from __future__ import annotations

from ckpttool.query.grouping import (
    FoldedRow,
    ScopeRow,
    by_scope,
    fold_layers,
    fold_numbers,
    sorted_sums,
)
from ckpttool.query.rows import TensorRow


def _row(key: str, shape: tuple[int, ...] = (2,), kind: str = "weight") -> TensorRow:
    size = 4 * (shape[0] if shape else 1)
    return TensorRow(key, None, "float32", shape, kind, size // 4, size, 0, 0, 0)


def test_scopes_keep_kinds_apart() -> None:
    rows = [
        _row("net/a/kernel"),
        _row("net/a/bias", (3,)),
        _row("net/a/kernel/m", kind="slot"),
        _row("step", (), kind="step"),
    ]
    assert by_scope(rows, 1) == [
        ScopeRow("net", "weight", 2, 5, 20),
        ScopeRow("net", "slot", 1, 2, 8),
        ScopeRow("step", "step", 1, 1, 4),
    ]
    assert [row.scope for row in by_scope(rows, 3)] == [
        "net/a/kernel",
        "net/a/bias",
        "net/a/kernel",
        "step",
    ]


def test_scopes_go_by_object_path_where_there_is_one() -> None:
    row = _row("net/a/.ATTRIBUTES/VARIABLE_VALUE")._replace(object_path="net/a")
    assert by_scope([row], 2)[0].scope == "net/a"
    assert by_scope([row], 9)[0].scope == "net/a"


def test_numbers_fold_where_nothing_else_differs() -> None:
    rows = [_row(f"layer_{at}/conv2d/kernel") for at in range(12)]
    rows += [_row("layer_0/conv2d/bias", (3,)), _row("layer_1/conv2d/bias", (4,))]
    assert fold_numbers(rows) == [
        FoldedRow("layer_#/conv2d/kernel", 12, "float32", (2,), "weight", 96),
        FoldedRow("layer_0/conv2d/bias", 1, "float32", (3,), "weight", 12),
        FoldedRow("layer_1/conv2d/bias", 1, "float32", (4,), "weight", 16),
    ]


def test_each_number_folds_by_itself() -> None:
    rows = [_row(f"l{layer}/h{head}/q8") for layer in range(2) for head in range(3)]
    assert [row.name for row in fold_numbers(rows)] == ["l#/h#/q8"]
    # "01" and "1" are two numbers, and a name without numbers stays what it is.
    assert [row.name for row in fold_numbers([_row("a01"), _row("a1"), _row("b")])] == ["a#", "b"]


def test_the_largest_sums_come_first() -> None:
    rows = [_row("a/x", (5,)), _row("b/x", (4,)), _row("b/y", (4,)), _row("c/x", (3,))]
    scopes = by_scope(rows, 1)
    assert [row.scope for row in sorted_sums(scopes, "key")] == ["a", "b", "c"]
    assert [row.scope for row in sorted_sums(scopes, "bytes")] == ["b", "a", "c"]


def test_layers_are_names_that_differ_in_one_number() -> None:
    names = ["b/h10/w_2", "b/h2/w_2", "b/h1/w_2", "b/h1/w_3", "a", "x7", "#/1", "#/01"]
    assert [(each.name, each.numbers) for each in fold_layers(names)] == [
        ("#/#", ["1", "01"]),
        ("a", []),
        ("b/h1/w_3", []),
        ("b/h#/w_2", ["1", "2", "10"]),
        ("x7", []),
    ]
    assert [names[at] for at in fold_layers(names)[3].members] == [
        "b/h1/w_2",
        "b/h2/w_2",
        "b/h10/w_2",
    ]
    assert fold_layers([]) == []
