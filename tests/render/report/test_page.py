"""The page of a report: what it may contain, and what becomes of names that mean harm."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import ckpttool
from ckpttool.printable import printable
from tests.support.fixtures import FIXTURES

GUIDE = f"{FIXTURES}/v2/tf2.21/guide_legacy_adam/tf_ckpts"
HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(2)</script>",
    "\"quoted' & <!-- --> ]]>",
    "javascript:alert(3)",
    "esc\x1b[31m\x07\x00",
    "turned\u202e\u2028\u2029line",
    "`${alert(4)}`",
    "{{script}}",
    "a, b: c",
    "long" * 5000,
)
TAGS = {
    *("html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "p", "ul", "li", "b"),
    *("span", "div", "noscript", "code", "section", "nav", "button", "small", "canvas", "input"),
    *("table", "thead", "tbody", "dialog", "footer", "script", "svg", "rect", "g", "path", "text"),
}


class Page(HTMLParser):
    """The elements of a page, as a browser would find them."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.inside = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

        self.inside = tag

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self.inside, []).append(data)

    def attributes(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def scripts(self) -> list[str]:
        return self.texts["script"]

    @property
    def policy(self) -> str:
        (found,) = (each["content"] for each in self.attributes("meta") if "http-equiv" in each)
        assert found is not None
        return found


@pytest.fixture(scope="module")
def guide() -> str:
    return ckpttool.report(GUIDE).html


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the page of a checkpoint with such names and such a title."""
    prefix = str(tmp_path_factory.mktemp("hostile") / "m")
    ckpttool.save_checkpoint(prefix, {name: np.arange(3.0) for name in HOSTILE})
    return ckpttool.report(prefix, title=HOSTILE[0]).html


def digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def test_policy_lets_in_the_only_script_and_the_only_style(guide: str) -> None:
    page = Page(guide)
    kinds = [each.get("type") for each in page.attributes("script")]
    assert kinds == ["application/json", None]
    (style,) = page.texts["style"]
    assert page.policy == (
        f"default-src 'none'; script-src '{digest(page.scripts[1])}'; "
        f"style-src '{digest(style)}'; base-uri 'none'; form-action 'none'"
    )


def test_page_loads_nothing_and_makes_no_markup_of_text(guide: str) -> None:
    page = Page(guide)
    words = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval", "Function")
    code = page.scripts[1] + page.texts["style"][0]
    assert [word for word in words if re.search(rf"\b{re.escape(word)}\b", code)] == []
    assert not re.search(
        r"url\(|@import|setTimeout|setInterval|\bhref\b|\bsrc\b|fetch|XMLHttp|sendBeacon|storage",
        code,
    )
    links = re.findall(r"\w+://[^\"' ]*", guide)
    assert set(links) == {"http://www.w3.org/2000/svg"}
    for tag, attributes in page.elements:
        assert not {"style", "href", "src", "xlink:href", "action"} & attributes.keys(), tag
        assert not [name for name in attributes if name.startswith("on")], tag


def test_hostile_names_are_only_text(hostile: str) -> None:
    page = Page(hostile)
    assert {tag for tag, _ in page.elements} <= TAGS
    assert len(page.attributes("script")) == 2 and len(page.attributes("style")) == 1
    for tag, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on") or name == "src"], tag
    assert page.texts["h1"][0] == HOSTILE[0]
    data = json.loads(page.scripts[0])
    assert sorted(data["names"]) == sorted(map(printable, HOSTILE))
    assert not re.search("[<>&\u2028\u2029\x1b]", page.scripts[0])
    assert page.policy.count(digest(page.scripts[1])) == 1


def test_same_input_gives_the_same_bytes(guide: str) -> None:
    assert ckpttool.report(GUIDE, jobs=1).html == guide


@pytest.mark.parametrize("values", [False, True])
def test_page_is_small(tmp_path: Path, values: bool) -> None:
    count = 2000
    block = np.random.default_rng(5).normal(size=(4, 8)).astype(np.float32)
    names = (f"model/layer_{at}/dense/{what}" for at in range(count // 2) for what in "wb")
    ckpttool.save_checkpoint(str(tmp_path / "m"), dict.fromkeys(names, block))
    made = ckpttool.report(str(tmp_path / "m"), values=values)
    assert len(made.html.encode()) < 55_000 + (165 if values else 110) * count


def test_numbers_of_the_guide(guide: str) -> None:
    data = json.loads(Page(guide).scripts[0])
    at = data["names"].index("net/l1/kernel")
    kernel = ckpttool.load_variable(GUIDE, "net/l1/kernel/.ATTRIBUTES/VARIABLE_VALUE")
    assert data["keys"][at] == 1
    assert data["shapes"][data["shape"][at]] == list(kernel.shape)
    assert data["std"][at] == pytest.approx(kernel.std(), rel=1e-5)
    assert data["max"][at] == pytest.approx(kernel.max(), rel=1e-5)
    assert re.fullmatch("[0-9a-z]{32}", data["hist"][at])
    assert "all finite" in guide and "<b>50</b>" in guide
