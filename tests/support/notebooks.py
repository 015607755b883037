"""The HTML of a notebook's view, parsed and held to its rules."""

from __future__ import annotations

from collections import Counter
from html.parser import HTMLParser

TAGS = {"div", "style", "details", "summary", "b", "p", "svg", "rect", "path", "span", "code"} | {
    *("table", "thead", "tbody", "tr", "th", "td")
}
ATTRIBUTES = {"class", "open", "viewbox", "width", "height", "role", "aria-label", "x", "fill"} | {
    *(
        "preserveaspectratio",
        "style",
        "colspan",
        "d",
        "stroke",
        "stroke-width",
        "stroke-linecap",
        "stroke-linejoin",
    )
}

# Names as strangers might give them.
HOSTILE = [
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</td></table></details></div>",
    "<!-- -->]]>&amp;&lt;",
    "".join(map(chr, [*range(1, 32), *range(127, 160)])),
    "\u202eright to left\u2028line",
    "not UTF-8 \udcff\udcfe",
    "'" * 500,
    '"' * 501,
    "x" * 1_000_000,
    "e" + "\u0301" * 9000,
    "\U0001f600" * 90,
    "漢" * 90,
]


class Page(HTMLParser):
    """The elements of a page, the text in them, and whether each that is opened is closed."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: Counter[str] = Counter()
        self.attributes: set[str] = set()
        self.open: list[str] = []
        self.rows: list[list[str]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes |= {name for name, _ in attrs}
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("th", "td"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)

    def handle_decl(self, decl: str) -> None:
        raise AssertionError(decl)

    def handle_pi(self, data: str) -> None:
        raise AssertionError(data)

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(data)


def page_of(answer: object) -> Page:
    """Return the view of an answer, which keeps the rules for all views."""
    text = answer._repr_html_()  # type: ignore[attr-defined]
    assert isinstance(text, str)
    assert len(text.encode()) <= 6 << 10
    assert "http" not in text and "url(" not in text and "@import" not in text
    page = Page(text)
    assert page.tags.keys() <= TAGS
    assert page.attributes <= ATTRIBUTES
    return page
