"""The numbered layers of a checkpoint."""

from __future__ import annotations

from ckpttool.query.report.layers import MOST_ROWS, layer_matrix


def test_rows_are_names_and_columns_numbers() -> None:
    names = [f"h{layer}/conv2d/{what}" for layer in range(11) for what in ("w", "b")]
    found = layer_matrix([*names, "step", None])
    assert found is not None
    assert found.names == ("h#/conv2d/w", "h#/conv2d/b")
    assert found.columns == tuple(range(11))
    assert found.cells[1] == tuple(range(1, 22, 2))


def test_the_number_that_varies_most_makes_the_columns() -> None:
    names = [f"part{part}/h{layer}/w" for part in range(2) for layer in (1, 2, 3, 5, 8)]
    found = layer_matrix(names)
    assert found is not None
    assert found.names == ("part0/h#/w", "part1/h#/w")
    assert found.columns == (1, 2, 3, 5, 8)


def test_gaps_are_empty() -> None:
    found = layer_matrix([*(f"h{at}/w" for at in range(5)), *(f"h{at}/b" for at in range(1, 5))])
    assert found is not None
    assert found.cells[1] == (None, 5, 6, 7, 8)


def test_few_layers_make_no_matrix() -> None:
    assert layer_matrix([f"h{at}/w" for at in range(3)]) is None
    assert layer_matrix([]) is None
    assert layer_matrix(["9" * 5000 + "/w", "a", None]) is None


def test_there_is_a_limit_of_rows() -> None:
    found = layer_matrix([f"{chr(97 + at)}x/h{n}" for at in range(60) for n in range(4)])
    assert found is not None
    assert (len(found.names), found.left_out) == (MOST_ROWS, 60 - MOST_ROWS)
