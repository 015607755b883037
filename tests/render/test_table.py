from __future__ import annotations

import csv
import io
import json
import unicodedata
from array import array
from collections.abc import Iterator, Sequence
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpttool.printable import printable, unprintable
from ckpttool.render import humanize
from ckpttool.render.cells import ByColumn, Column, cell_text
from ckpttool.render.table import RowFormat, write_rows

COLUMNS = (
    Column("key", fold=True),
    Column("dtype"),
    Column("shape"),
    Column("kind", title="what"),
    Column("bytes", align="right", human=humanize.size),
)
ROWS = [
    ("net/l1/kernel", "float32", (3, 4), "weight", 4096),
    ("odd\t\x1b[31mkey\udcff", "string", (), None, 7),
    ("=cmd|'/C calc'!A0", "int64", (2,), "other", -8),
]


def written(
    format: RowFormat, rows: Sequence[Sequence[Any]] = ROWS, columns: Sequence[Column] = COLUMNS
) -> str:
    stream = io.StringIO(newline="")
    write_rows(iter(rows), columns, format, stream)
    return stream.getvalue()


def test_plain() -> None:
    assert written("plain") == (
        "key\tdtype\tshape\tkind\tbytes\n"
        "net/l1/kernel\tfloat32\t[3, 4]\tweight\t4096\n"
        "odd\\t\\x1b[31mkey\\xff\tstring\t[]\t-\t7\n"
        "=cmd|'/C calc'!A0\tint64\t[2]\tother\t-8\n"
    )


def test_names() -> None:
    expected = ["net/l1/kernel", "odd\\t\\x1b[31mkey\\xff", "=cmd|'/C calc'!A0"]
    assert written("names").split("\n") == [*expected, ""]


def test_csv() -> None:
    rows = list(csv.reader(io.StringIO(written("csv"), newline="")))
    assert rows == [
        ["key", "dtype", "shape", "kind", "bytes"],
        ["net/l1/kernel", "float32", "[3, 4]", "weight", "4096"],
        ["odd\\t\\x1b[31mkey\\xff", "string", "[]", "", "7"],
        ["'=cmd|'/C calc'!A0", "int64", "[2]", "other", "-8"],
    ]


@pytest.mark.parametrize(
    "text", ["=1+1", "+1+1", "-1-A1", "@SUM(A1)", "-", "-infinite", "-1e5x", "-1/0"]
)
def test_csv_leaves_no_formula(text: str) -> None:
    assert written("csv", [(text,)], [Column("key")]) == f"key\n'{text}\n"


@pytest.mark.parametrize(
    "text", ["-0.1", "+1", "-1e-05", "-inf", "-nan", "-1.", "-.5", "-1+2j", "-1e+30-infj", "-2j"]
)
def test_csv_leaves_numbers_as_they_are(text: str) -> None:
    assert written("csv", [(text,)], [Column("key")]) == f"key\n{text}\n"


def test_csv_needs_no_guard_against_control_characters() -> None:
    assert written("csv", [("\t=1",), ("\r=1",)], [Column("key")]) == "key\n\\t=1\n\\r=1\n"


def test_csv_quotes() -> None:
    text = written("csv", [('a,"b"', -1.5, True)], [Column("key"), Column("x"), Column("y")])
    assert text == 'key,x,y\n"a,""b""",-1.5,yes\n'


def test_jsonl() -> None:
    lines = [json.loads(line) for line in written("jsonl").splitlines()]
    assert lines[0] == {
        "key": "net/l1/kernel",
        "dtype": "float32",
        "shape": [3, 4],
        "kind": "weight",
        "bytes": 4096,
    }
    assert set(lines[1]["key"]) == {"base64"}
    assert lines[1]["kind"] is None


def test_markdown() -> None:
    rows = [
        ("a|b", "x|y", (1,), "_a_ *b* <i> `c` \\", 2048),
        ("tick`", "[l](u)", (), None, 0),
        ("``", " ", (), "&amp;", None),
    ]
    assert written("markdown", rows) == (
        "| key | dtype | shape | what | bytes |\n"
        "| --- | --- | --- | --- | ---: |\n"
        "| `a\\|b` | x\\|y | \\[1\\] | \\_a\\_ \\*b\\* \\<i\\> \\`c\\` \\\\\\\\ | 2.0 KiB |\n"
        "| `` tick` `` | \\[l\\](u) | \\[\\] | - | 0 B |\n"
        "| ``` `` ``` |   | \\[\\] | \\&amp; | - |\n"
    )


@pytest.mark.parametrize("format", get_args(RowFormat))
def test_no_rows(format: RowFormat) -> None:
    lines = written(format, []).splitlines()
    header = {"plain": 1, "csv": 1, "markdown": 2, "table": 1, "jsonl": 0, "names": 0}
    assert len(lines) == header[format]
    assert not lines or lines[0].replace("|", " ").replace(",", " ").split()[0] == "key"


@pytest.mark.parametrize("format", ["plain", "csv", "markdown", "names", "table"])
@given(text=st.text() | st.binary().map(lambda raw: raw.decode("utf-8", "surrogateescape")))
def test_any_name_stays_on_its_line_and_can_be_read_back(format: RowFormat, text: str) -> None:
    out = written(format, [(text, 1)], [Column("key"), Column("n")])
    unsafe = {"Cc", "Cf", "Cs", "Zl", "Zp", "Cn"}
    assert not [c for c in out if unicodedata.category(c) in unsafe and c not in "\t\n"]
    lines = out.split("\n")
    assert len(lines) == {"markdown": 4, "names": 2}.get(format, 3)
    if format == "names":
        assert unprintable(lines[0]) == text
    elif format == "plain":
        assert unprintable(lines[1].split("\t")[0]) == text


@pytest.mark.parametrize("format", ["table", "plain", "jsonl", "markdown"])
def test_rows_of_the_wrong_length_are_an_error(format: RowFormat) -> None:
    with pytest.raises(ValueError, match=r"shorter|longer"):
        written(format, [("a", 1), ("b",)], [Column("key"), Column("n")])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (True, "yes"),
        (False, "no"),
        (0, "0"),
        (-1.5, "-1.5"),
        (1e300, "1e+300"),
        ("\x1b", "\\x1b"),
        (b"a\xff", "a\\xff"),
        ((), "[]"),
        ((2, 3), "[2, 3]"),
        ([2, 3], "[2, 3]"),
        (("0,2:-", "\n"), "0,2:-, \\n"),
    ],
)
def test_cells(value: object, text: str) -> None:
    assert cell_text(value) == text
    for others in ([], ["x"], [None]):
        rows = [(value,), *((other,) for other in others)]
        assert written("plain", rows, [Column("key")]).split("\n")[1] == text


@pytest.mark.parametrize("format", ["plain", "csv", "jsonl", "names", "markdown"])
def test_rows_are_written_as_they_come(format: RowFormat) -> None:
    stream = io.StringIO()
    sizes: list[int] = []

    def rows() -> Iterator[tuple[str, int]]:
        for number in range(20_000):
            sizes.append(stream.tell())
            yield f"name{number}", number

    write_rows(rows(), [Column("key"), Column("n")], format, stream)
    assert sizes[-1] > stream.tell() / 2


def test_order_and_number_of_many_rows() -> None:
    rows = [(f"name{number}", number, (number % 7,)) for number in range(10_000)]
    lines = written("plain", rows, [Column("key"), Column("n"), Column("shape")]).splitlines()[1:]
    assert lines == [f"name{n}\t{n}\t[{n % 7}]" for n in range(10_000)]


def test_one_odd_name_among_many() -> None:
    rows = [("plain",)] * 3000 + [("tab\there",)] + [("é",)] * 2000
    lines = written("plain", rows, [Column("key")]).splitlines()
    assert lines[3001] == printable("tab\there")
    assert lines.count("é") == 2000


@pytest.mark.parametrize("format", get_args(RowFormat))
@pytest.mark.parametrize("count", [0, 3, 10_000])
def test_rows_held_by_columns_are_written_alike(format: RowFormat, count: int) -> None:
    columns = [Column("key"), Column("shape"), Column("bytes", align="right")]
    cells = ([f"k{at}\n" for at in range(count)], [(at % 5,) for at in range(count)])
    sizes = array("q", range(count))
    by_row, by_column = io.StringIO(), io.StringIO()
    write_rows(list(zip(*cells, sizes, strict=True)), columns, format, by_row)
    write_rows(ByColumn((*cells, sizes)), columns, format, by_column)
    assert by_column.getvalue() == by_row.getvalue()
