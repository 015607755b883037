r"""The manual pages as Markdown, for people who read them on the web.

Only the requests that the pages use are known: anything else is an error, so that nothing is lost
in silence. Bold becomes code, since the pages set in bold what is typed or printed literally.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_SKIPPED = {".nr", ".nh", ".ad", ".TH"}
_FONTS = {"B": "bold", "I": "italic", "R": "roman", "P": "roman"}
_CHARACTERS = {
    "-": "-",
    "e": "\\",
    " ": " ",
    "&": "",
    "(aq": "'",
    "(dq": '"',
    "(ga": "`",
    "(ha": "^",
    "(ti": "~",
    "(bu": "*",
}
_ESCAPE = re.compile(r"\\(?:f(?P<font>.)|(?P<name>\(..|.))")
_WORDS = re.compile(r'"((?:[^"])*)"|((?:\\.|\S)+)')
_MARKS = re.compile(r"[\\`*_\[\]<>&~]")
# What would begin a list, a heading or a rule; the mark is the last character.
_BLOCK_MARK = re.compile(r"(?:[-+=]|#+|\d+[.)])(?=\s|\Z)")


class Run(NamedTuple):
    """Text in one font: "roman", "bold" or "italic"."""

    font: str
    text: str


def page(source: str, names: Iterable[str]) -> str:
    """Return a page as Markdown.

    Args:
        source: the page in roff.
        names: the files of all pages, such as "ckpt-ls.1": a reference to one becomes a link.
    """
    return _Page(frozenset(names)).convert(source)


class _Page:
    def __init__(self, names: frozenset[str]) -> None:
        self._names = names
        self._out: list[str] = []
        self._lines: list[str] = []  # of the paragraph
        self._indent = 0
        self._outer: list[int] = []  # indents around .RS
        self._tag = False  # whether the next text is the tag of an item
        self._bullet = False  # whether the next paragraph starts an item

    def convert(self, source: str) -> str:
        lines = iter(source.splitlines())
        for line in lines:
            if line.startswith('.\\"') or line in ("", "."):
                continue
            if not line.startswith("."):
                self._text(_runs(line))
                continue
            request, _, rest = line.partition(" ")
            if request == ".EX":
                self._code(lines)
            else:
                self._request(request, rest)
        self._end()
        return "\n".join(self._out).rstrip("\n") + "\n"

    def _request(self, request: str, rest: str) -> None:
        words = [_unquoted(found) for found in _WORDS.finditer(rest)]
        if request == ".TH":
            self._out += [f"# {_plain(words[0]).lower()}({words[1]})", ""]
        elif request in _SKIPPED:
            return
        elif request in (".SH", ".SS"):
            self._end()
            self._indent = 0
            title = " ".join(map(_plain, words))
            if request == ".SH":
                title = title.capitalize()
            self._out += [f"{'##' if request == '.SH' else '###'} {_escaped(title)}", ""]
        elif request == ".PP":
            self._end()
            self._indent = self._outer[-1] if self._outer else 0
        elif request in (".TP", ".IP"):
            self._end()
            self._indent = self._outer[-1] if self._outer else 0
            self._bullet = True
            self._tag = request == ".TP"
        elif request == ".RS":
            self._end()
            self._outer.append(self._indent)
        elif request == ".RE":
            self._end()
            self._indent = self._outer.pop()
        elif request == ".br":
            self._lines[-1] += "\\"
        elif re.fullmatch(r"\.[BIR]{1,2}", request):
            self._text(self._set(request[1:], words))
        else:
            raise ValueError(f"no Markdown for {request}")

    def _set(self, fonts: str, words: list[str]) -> list[Run]:
        """Return the words of a request such as .BR, in its fonts in turn."""
        if len(fonts) == 1:
            return _runs(" ".join(words), _FONTS[fonts])
        target = f"{_plain(words[0])}.{words[1][1:2]}" if len(words) > 1 else ""
        if target in self._names and re.match(r"\(\d\)", words[1]):
            link = Run("link", target)
            return [link, *_runs(words[1][3:])]
        each = zip(words, fonts * len(words), strict=False)
        return [run for word, font in each for run in _runs(word, _FONTS[font])]

    def _text(self, runs: list[Run]) -> None:
        text = "".join(map(_spelled, _joined(runs)))
        mark = _BLOCK_MARK.match(text)
        if mark:
            text = f"{text[: mark.end() - 1]}\\{text[mark.end() - 1 :]}"
        self._lines.append(text)
        if self._tag:
            self._tag = False
            self._end()

    def _code(self, lines: Iterator[str]) -> None:
        self._end()
        body = []
        for line in lines:
            if line == ".EE":
                break
            body.append(_plain(line))
        pad = " " * self._indent
        self._out += [pad + "```", *(pad + line if line else "" for line in body), pad + "```", ""]

    def _end(self) -> None:
        """Write the paragraph."""
        if not self._lines:
            return
        pad = " " * self._indent
        first = pad + "- " if self._bullet else pad
        if self._bullet:
            self._indent += 2
            pad += "  "
            self._bullet = False
        self._out += [first + self._lines[0], *(pad + line for line in self._lines[1:]), ""]
        self._lines = []


def _unquoted(found: re.Match[str]) -> str:
    return found[2] if found[1] is None else found[1]


def _runs(text: str, font: str = "roman") -> list[Run]:
    """Return a line in roff as runs of text."""
    runs: list[Run] = []
    at = 0
    current = font
    for found in _ESCAPE.finditer(text):
        runs.append(Run(current, text[at : found.start()]))
        at = found.end()
        if found["font"]:
            current = _FONTS[found["font"]]
        else:
            runs.append(Run(current, _CHARACTERS[found["name"]]))
    return [*runs, Run(current, text[at:])]


def _plain(text: str) -> str:
    return "".join(run.text for run in _runs(text))


def _joined(runs: Iterable[Run]) -> list[Run]:
    """Join neighbours in the same font: code beside code would be broken."""
    out: list[Run] = []
    for run in runs:
        if not run.text:
            continue
        if out and out[-1].font == run.font != "link":
            run = Run(run.font, out.pop().text + run.text)
        out.append(run)
    return out


def _spelled(run: Run) -> str:
    if run.font == "link":
        stem, _, section = run.text.rpartition(".")
        return f"[{stem}({section})]({run.text}.md)"
    if run.font == "roman":
        return _escaped(run.text)
    text = run.text.strip(" ")
    if not text:
        return run.text
    lead = run.text[: len(run.text) - len(run.text.lstrip(" "))]
    trail = run.text[len(run.text.rstrip(" ")) :]
    if run.font == "italic":
        return f"{lead}*{_escaped(text)}*{trail}"
    fence = "``" if "`" in text else "`"
    pad = " " if "`" in (text[0], text[-1]) else ""
    return f"{lead}{fence}{pad}{text}{pad}{fence}{trail}"


def _escaped(text: str) -> str:
    return _MARKS.sub(lambda found: "\\" + found[0], text)
