"""Pictures as text: those of the fixtures, and names that try to break out of them."""

from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

import ckpttool
from ckpttool.printable import printable
from ckpttool.query.drawing.build import Drawing, fold_outline
from ckpttool.query.drawing.scopes import outline_scopes
from ckpttool.query.rows import TensorRow
from ckpttool.render.drawing.labels import elided
from ckpttool.render.drawing.mermaid import beyond_limits, mermaid_text
from ckpttool.render.drawing.write import DRAWING_FORMATS, drawing_text
from ckpttool.render.wrap import text_width
from tests.support.fixtures import FIXTURES

GOLDEN = Path(__file__).parent / "golden"
DRAWN = {
    "guide_legacy_adam": "v2/tf2.21/guide_legacy_adam/tf_ckpts",
    "guide_new_adam": "v2/tf2.21/guide_new_adam/tf_ckpts",
    "keras3_adam": "v2/tf2.21/keras3_adam",
    "references": "v2/tf2.21/references",
    "containers": "v2/tf2.21/containers",
    "names": "v2/tf1.15/saver",
    "v1": "v1/tf1.15/saver",
}
HOSTILE = (
    *(chr(code) for code in range(0x20)),
    *(chr(code) for code in range(0x7F, 0xA0)),
    "\udcff",
    "\u202e",
    "\u2028",
    "\ufffe",
    "<script>alert(1)</script>",
    "]]>",
    "-->",
    "</svg></style>",
    '"',
    "'",
    "`",
    "```",
    "&amp;&#34;\\N\\G\\",
    "%%{init}%%",
    'x"] --> y["',
    "click a href",
    "end",
    "1. one",
    "- item",
    "+ item",
    "subgraph",
    "#35;",
    " ",
    "",
    "漢字かな" * 20,
    "e\u0301" * 40,
    "x" * 1_000_000,
)


def picture(*names: str) -> Drawing:
    rows = [TensorRow(name, None, "float32", (), "weight", 1, 4, 0, 0, 0) for name in names]
    return fold_outline(outline_scopes(rows), names[0], everything=True)


@pytest.mark.parametrize("format", ["svg", "dot", "mermaid"])
@pytest.mark.parametrize("name", DRAWN)
def test_pictures_of_the_fixtures(name: str, format: str) -> None:
    path = GOLDEN / f"{name}.{format}"
    text = ckpttool.draw(f"{FIXTURES}/{DRAWN[name]}", format)  # type: ignore[arg-type]
    assert text == path.read_text(encoding="utf-8")


def test_markdown_is_mermaid_in_a_fence() -> None:
    text = ckpttool.draw(f"{FIXTURES}/{DRAWN['references']}", "markdown")
    mermaid = ckpttool.draw(f"{FIXTURES}/{DRAWN['references']}", "mermaid")
    assert text == f"```mermaid\n{mermaid}```\n"


def test_svg_of_any_name_is_xml_that_says_it() -> None:
    drawing = picture(*HOSTILE)
    tree = ElementTree.fromstring(drawing_text(drawing, "svg")[0])
    assert {each.tag.rpartition("}")[2] for each in tree.iter()} == {
        *("svg", "style", "rect", "g", "path", "text", "title")
    }
    assert not [
        key for each in tree.iter() for key in each.attrib if key.startswith(("on", "href"))
    ]
    said = {each.text for each in tree.iter() if each.tag.endswith("}text")}
    assert {printable(elided(node.name or "(root)")) for node in drawing.root.walk()} <= said


def test_html_finds_only_our_elements() -> None:
    """A page into which the picture is pasted is read by another parser than that of XML."""
    found = []

    class Parser(HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            found.append(tag)

    Parser().feed(drawing_text(picture(*HOSTILE), "svg")[0])
    assert set(found) == {"svg", "style", "rect", "g", "path", "text", "title"}


def test_mermaid_says_only_what_is_ours() -> None:
    text = mermaid_text(picture(*HOSTILE))
    for line in text.splitlines():
        assert re.fullmatch(
            r"flowchart LR|  acc(Title|Descr): [^\"`%<>&{}]*"
            r"|  n\d+(\(\[|\[\[|\[/|\[|\(|\{\{)\"([^\"`%<>&{}]|<br/>)*\"(\]\)|\]\]|/\]|\]|\)|\}\})"
            r"|  n\d+ --> n\d+|  classDef [a-z]+ [-a-z0-9:#.,]+|  class [n0-9,]+ [a-z]+",
            line,
        ), line


def test_dot_of_any_name_is_read_by_graphviz() -> None:
    if shutil.which("dot") is None:
        pytest.skip("Graphviz is not installed")
    drawing = picture(*HOSTILE)
    text = drawing_text(drawing, "dot")[0]
    done = subprocess.run(
        ["dot", "-Tcanon"], input=text, capture_output=True, text=True, timeout=60, check=True
    )
    assert not done.stderr
    assert done.stdout.count(" -> ") == sum(1 for _ in drawing.root.walk()) - 1


def test_strings_of_dot_end_where_we_end_them() -> None:
    for line in drawing_text(picture(*HOSTILE), "dot")[0].splitlines():
        rest = re.sub(r'"(?:[^"\\]|\\.)*"', "", line)
        assert re.fullmatch(r"[-\w\s\[\]=,.;{}>#]*", rest), line


def test_the_same_checkpoint_gives_the_same_bytes() -> None:
    for format in DRAWING_FORMATS:
        one, two = (drawing_text(picture("b", "a/c", "a/b"), format) for _ in range(2))
        assert one == two


def test_mermaid_tells_when_it_is_too_much_for_mermaid() -> None:
    assert beyond_limits(mermaid_text(picture("a/b"))) is None
    many = picture(*(f"x{at}" for at in range(600)))
    assert "500" in (beyond_limits(mermaid_text(many)) or "")
    long = picture(*(f"{'x' * 40}{at}" for at in range(1_000)))
    assert "50,000" in (beyond_limits(mermaid_text(long)) or "")


@pytest.mark.parametrize("at", range(len(HOSTILE)))
def test_labels_are_short(at: int) -> None:
    text = elided(HOSTILE[at])
    assert text_width(printable(text)) <= 44
    assert text.partition("…")[0] == HOSTILE[at][: len(text.partition("…")[0])]
