"""The manual says what the commands do: their options, variables, columns, examples and bytes."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import Any

import markdown_it
import numpy as np
import pytest

import ckpttool
from ckpttool.checkpoint.kinds.rules import KINDS
from ckpttool.cli.main import COMMANDS, COMPLETE_VARIABLE, HELPERS, cli
from ckpttool.cli.options import OUTPUT_FORMATS
from ckpttool.cli.pager import pager_command, pager_environment
from ckpttool.render.console import describe
from ckpttool.tensor.dtypes import DTYPES
from ckpttool.tensor.slices import encode_slice_key
from ckpttool.tensor.strings import encode_strings
from man import examples, generate, markdown
from tests.support.slices import parse_slice

PAGES = {path.name: path.read_text(encoding="utf-8") for path in generate.pages()}
COMMAND_PAGES = [name for name in PAGES if name.endswith(".1")]
_MARKUP = re.compile(r"\\f[BIRP]|\\&|\\%|\\/|^\.\\\".*$", re.MULTILINE)
_CHARACTERS = {
    r"\-": "-",
    r"\e": "\\",
    r"\(aq": "'",
    r"\(dq": '"',
    r"\(ga": "`",
    r"\(ha": "^",
    r"\(ti": "~",
    r"\(bu": "*",
    "\\ ": " ",
}
_CHARACTER = re.compile(r"\\(?:\(..|.)")
_COMMAND_LINE = re.compile(r"(?:\w+=\S+ )*ckpt(?: |$)")


def plain(source: str) -> str:
    """Return the source of a page without fonts and comments, characters as they come out."""
    return _CHARACTER.sub(lambda found: _CHARACTERS[found[0]], _MARKUP.sub("", source))


def words(source: str) -> str:
    """Return the text of a page without requests, quotes and line breaks."""
    text = re.sub(r"^\.[A-Z]+\b ?", "", plain(source), flags=re.MULTILINE)
    return " ".join(text.replace('"', " ").split())


def shown_blocks(source: str) -> list[str]:
    """Return the blocks of a page that are shown as they are typed."""
    return [plain(block) for block in re.findall(r"^\.EX\n((?s:.*?))^\.EE$", source, re.MULTILINE)]


def section(source: str, heading: str) -> str:
    """Return what stands under a heading."""
    found = re.search(rf"^\.SH {heading}\n((?s:.*?))(?=^\.SH |\Z)", source, re.MULTILINE)
    assert found, heading
    return found[1]


def page_examples() -> Iterator[tuple[str, str]]:
    for name, source in PAGES.items():
        for block in shown_blocks(source):
            if _COMMAND_LINE.match(block):
                yield name, block.rstrip("\n")


def help_examples() -> Iterator[tuple[str, str]]:
    for name in COMMANDS:
        for line, _ in generate.page_command(f"ckpt-{name}.1").command.examples:  # type: ignore[attr-defined]
            yield f"{name} --help", line


ALL_EXAMPLES = {text: origin for origin, text in (*page_examples(), *help_examples())}


def test_every_command_has_a_page() -> None:
    assert set(COMMAND_PAGES) == {"ckpt.1", *(f"ckpt-{name}.1" for name in COMMANDS)}


@pytest.mark.parametrize("name", PAGES)
def test_generated_parts_are_up_to_date(name: str) -> None:
    assert PAGES[name] == generate.refreshed(name, PAGES[name]), "run: python man/generate.py"


@pytest.mark.parametrize("name", COMMAND_PAGES)
def test_generated_parts_are_there(name: str) -> None:
    found = re.findall(r'^\.\\" BEGIN ([a-z]+) ', PAGES[name], re.MULTILINE)
    wanted = ["options", "environment"]
    assert found == (["commands", *wanted] if name == "ckpt.1" else wanted)


def test_a_change_of_an_option_is_noticed() -> None:
    source = PAGES["ckpt-ls.1"]
    for changed in (
        source.replace(r"\fB\-\-limit\fR \fIN\fR", r"\fB\-\-most\fR \fIN\fR"),
        source.replace("CKPT_LS_LIMIT ", "CKPT_LS_MOST  "),
        source.replace(f"ckpttool {ckpttool.__version__}", "ckpttool 0.0.1"),
    ):
        assert changed != source
        assert generate.refreshed("ckpt-ls.1", changed) == source


@pytest.mark.parametrize("name", PAGES)
def test_title_has_version_and_day_of_the_package(name: str) -> None:
    stem, number = name.rsplit(".", 1)
    version, day = generate.VERSION_DATE
    assert version == ckpttool.__version__
    assert date.fromisoformat(day).isoformat() == day
    title = plain(PAGES[name].splitlines()[0])
    assert title == f'.TH {stem.upper()} {number} {day} "ckpttool {version}" "ckpttool manual"'


def option_names(name: str) -> set[str]:
    """Return all names of the options of the command that a page is about."""
    named: set[str] = set()
    for option in generate.options(generate.page_command(name)):
        named.update((*option.opts, *option.secondary_opts))
    return named


@pytest.mark.parametrize("name", COMMAND_PAGES)
def test_every_option_is_on_the_page(name: str) -> None:
    text = section(PAGES[name], "OPTIONS")
    for option in option_names(name):
        assert rf"\fB{generate.escape(option)}\fR" in text


@pytest.mark.parametrize("name", PAGES)
def test_no_option_is_named_that_does_not_exist(name: str) -> None:
    real = option_names("ckpt.1")
    for each in COMMAND_PAGES if name not in COMMAND_PAGES or name == "ckpt.1" else [name]:
        real |= option_names(each)
    source = re.sub(r"^\.EX\n(?s:.*?)^\.EE$", "", PAGES[name], flags=re.MULTILINE)
    source = re.sub(r"^\.IP.*$|^\.TH.*$", "", source, flags=re.MULTILINE)
    named = re.findall(r"(?<![\w\-./'])--?[a-zA-Z][\w-]*", words(source))
    # What follows a name or a variable, and what numbers and the like begin with, is no option.
    strange = {"-keys", "-values", "-state", "-of-", "-of-00003", "-Infinity"}
    assert set(named) - real <= strange


def test_environment_variables_are_real() -> None:
    asked: set[str] = set()

    class Spy(Mapping[str, str]):
        def __getitem__(self, name: str) -> str:
            asked.add(name)
            raise KeyError(name)

        def __iter__(self) -> Iterator[str]:
            return iter(())

        def __len__(self) -> int:
            return 0

    class Tty(io.StringIO):
        def isatty(self) -> bool:
            return True

    describe(Tty(), environ=Spy())
    pager_command(Spy())
    pager_environment(Spy())
    real = asked | {COMPLETE_VARIABLE}
    for name in COMMAND_PAGES:
        real.update(generate.variables(generate.page_command(name)))
    for name, source in PAGES.items():
        named = set(re.findall(r"\b_?CKPT_(?!POINTABLE)[A-Z_]+\b", words(source)))
        assert named <= real, name
    heads = re.findall(r"^\.TP\n\.B (.*)$", section(PAGES["ckpt.1"], "ENVIRONMENT"), re.MULTILINE)
    assert set(re.findall(r"[A-Z_]{4,}", plain(" ".join(heads)))) == asked


@pytest.mark.parametrize("name", COMMAND_PAGES)
def test_variables_set_options(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = generate.page_command(name)
    values = {"sort": "bytes", "format": "csv", "color": "never", "kind": "slot"}
    for variable, option in generate.variables(ctx).items():
        monkeypatch.setenv(variable, values.get(str(option.name), "1"))
        found = option.consume_value(ctx, {})
        assert found[1].name == "ENVIRONMENT", variable


@pytest.mark.sweep(3)
@pytest.mark.parametrize("lines", ALL_EXAMPLES, ids=lambda lines: lines.splitlines()[0])
def test_examples_run(lines: str, tmp_path: Path) -> None:
    examples.make(tmp_path)
    before = set(tmp_path.iterdir())
    done = examples.run(lines, tmp_path)
    # A difference is an answer.
    codes = (0, 1) if lines.startswith(("ckpt diff ", "ckpt match ")) else (0,)
    assert done.returncode in codes, f"{ALL_EXAMPLES[lines]}: {done.stderr}"
    assert examples.is_quiet(lines, done.stderr)
    made = [path for path in set(tmp_path.iterdir()) - before if path.is_file()]
    assert done.stdout.strip() or (made and all(path.stat().st_size for path in made))


@pytest.mark.parametrize("name", [*COMMAND_PAGES, "ckpt-selection.7"])
def test_section_of_examples_holds_nothing_else(name: str) -> None:
    blocks = shown_blocks(section(PAGES[name], "EXAMPLES"))
    assert len(blocks) >= 5
    assert all(_COMMAND_LINE.match(line) for block in blocks for line in block.splitlines())


@pytest.mark.parametrize("name", PAGES)
def test_pages_point_at_pages(name: str) -> None:
    named = re.findall(r"\b(ckpt(?:-[a-z-]+)?) ?\((\d)\)", words(PAGES[name]))
    assert {f"{stem}.{number}" for stem, number in named} <= PAGES.keys()
    also = section(PAGES[name], "SEE ALSO")
    others = {each.rsplit(".", 1)[0] for each in PAGES} - {name.rsplit(".", 1)[0]}
    assert {stem for stem in others if rf".BR {generate.escape(stem)} (" in also} == others


def test_pages_of_commands_have_the_same_sections() -> None:
    """In one order, so that a reader who knows one page finds the place in another."""
    always = "NAME SYNOPSIS DESCRIPTION OPTIONS OUTPUT EXIT_STATUS ENVIRONMENT EXAMPLES SEE_ALSO"
    order = (
        "NAME SYNOPSIS DESCRIPTION COMMANDS OPTIONS LOCK_FILE OUTPUT FINDINGS EXIT_STATUS FILES "
        "ENVIRONMENT RECIPES EXAMPLES NOTES SEE_ALSO"
    )
    offenders = {}
    for name in COMMAND_PAGES:
        heads = re.findall(r"^\.SH (.*)$", PAGES[name], re.MULTILINE)
        found = [head.replace(" ", "_") for head in heads]
        if [each for each in order.split() if each in {*found, *always.split()}] != found:
            offenders[name] = found
    assert offenders == {}


def test_exit_statuses_are_those_of_the_main_page() -> None:
    def statuses(name: str) -> set[str]:
        heads = re.findall(r"^\.TP\n\.B (.*)$", section(PAGES[name], "EXIT STATUS"), re.MULTILINE)
        return set(re.findall(r"\d+", plain(" ".join(heads))))

    common = statuses("ckpt.1")
    assert common == {"0", "1", "2", "130", "141", "143"}
    assert {name for name in COMMAND_PAGES if not {"0", "2"} <= statuses(name) <= common} == set()


@pytest.mark.parametrize("name", PAGES)
def test_characters_come_out_as_they_are_meant(name: str) -> None:
    assert PAGES[name].isascii()
    for block in re.findall(r"^\.EX\n((?s:.*?))^\.EE$", PAGES[name], re.MULTILINE):
        assert not re.search(r"(?<!\\)-|['`^~]", block), block


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
@pytest.mark.parametrize("name", PAGES)
def test_groff_has_nothing_to_say(name: str) -> None:
    path = generate.PAGES / name
    done = subprocess.run(
        ["groff", "-ww", "-man", "-Tutf8", path], capture_output=True, encoding="utf-8", check=True
    )
    assert done.stderr == ""
    lines = re.sub(r".\x08|\x1b\[[0-9;]*m", "", done.stdout).splitlines()
    assert max(map(len, lines)) <= 80
    assert "ckpt" in lines[0].lower()


@pytest.mark.skipif(shutil.which("mandoc") is None, reason="mandoc is not installed")
@pytest.mark.parametrize("name", PAGES)
def test_mandoc_has_nothing_to_say(name: str) -> None:
    done = subprocess.run(
        ["mandoc", "-Tlint", generate.PAGES / name], capture_output=True, encoding="utf-8"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_markdown_is_up_to_date() -> None:
    for path, text in generate.on_the_web(PAGES).items():
        assert path.read_text(encoding="ascii") == text, "run: python man/generate.py"
    there = {path.name for path in generate.PAGES.glob("*.md")}
    assert there == {"README.md", *(f"{name}.md" for name in PAGES)}


@pytest.mark.parametrize("name", PAGES)
def test_markdown_has_every_word_of_the_page(name: str) -> None:
    tokens = markdown_it.MarkdownIt("commonmark").parse(
        (generate.PAGES / f"{name}.md").read_text(encoding="ascii")
    )
    seen = []
    for token in tokens:
        for each in token.children or [token]:
            broken = each.type in ("softbreak", "hardbreak", "paragraph_open", "heading_open")
            seen.append(" " if broken else each.content)
        assert token.type not in ("html_block", "ordered_list_open", "hr", "blockquote_open")
    text = "".join("".join(seen).split())
    page = PAGES[name].partition("\n")[2]  # without the title line
    requests = re.compile(r"^\.(?:EX|EE|PP|TP|IP|RS|RE|SH|SS|br|nr|nh|ad|[BIR]{1,2})\b ?(.*)$")
    expected = []
    for source in page.splitlines():
        is_text = not source.startswith(".") or source.startswith('.\\"')
        line = plain(source if is_text else source.replace('"', ""))
        found = requests.match(line)
        argument = line if found is None else found[1]
        if line.startswith((".nr", ".nh", ".ad", ".RS", ".IP")):
            continue
        expected.append(argument.capitalize() if line.startswith(".SH") else argument)
    stem, section_number = name.rsplit(".", 1)
    assert text == f"{stem}({section_number})" + "".join("".join(expected).split())


@pytest.mark.parametrize("name", PAGES)
def test_links_between_pages_lead_somewhere(name: str) -> None:
    text = (generate.PAGES / f"{name}.md").read_text(encoding="ascii")
    targets = set(re.findall(r"\]\(([^)]+)\)", re.sub(r"```(?s:.*?)```", "", text)))
    assert targets and all((generate.PAGES / target).exists() for target in targets)


def test_markdown_knows_every_request() -> None:
    with pytest.raises(ValueError, match=r"no Markdown for \.TS"):
        markdown.page(".TS\n", [])
    assert markdown.page("1. no list\n.PP\n# no heading\n.PP\n\\fBa`b\\fR_c_\n", []) == (
        "1\\. no list\n\n\\# no heading\n\n``a`b``\\_c\\_\n"
    )


def members(schema: object) -> Iterator[str]:
    """Yield the names of all members of objects in a JSON Schema."""
    if isinstance(schema, dict):
        for name, value in schema.items():
            if name == "properties":
                yield from value
            yield from members(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from members(value)


# What `ckpt export-meta-json` prints is described by protobuf's own mapping.
@pytest.mark.parametrize("command", [each for each in COMMANDS if each != "export-meta-json"])
def test_every_member_of_json_is_described(command: str) -> None:
    text = (files("ckpttool.schemas") / f"ckpt.{command}.1.json").read_text(encoding="utf-8")
    schema = json.loads(text)
    named = set(members(schema)) - {"schema", "base64"}
    if command != "ls":
        named -= set(members(schema["$defs"].pop("source", {}))) - set(members(schema))
    page = plain(section(PAGES[f"ckpt-{command}.1"], "OUTPUT"))
    bold = set(re.findall(r"\w+", " ".join(re.findall(r"^\.BR? (.*)$", page, re.MULTILINE))))
    assert len(named) > 15
    assert named <= bold


@pytest.mark.parametrize(
    "line",
    [
        "ckpt ls ckpts --long",
        "ckpt ls ckpts -d",
        "ckpt ls ckpts --depth 1",
        "ckpt ls ckpts --collapse",
        "ckpt show ckpts --stats",
        "ckpt diff ckpts --collapse",
    ],
)
def test_every_column_is_described(line: str, tmp_path: Path) -> None:
    examples.make(tmp_path)
    columns = examples.run(line, tmp_path).stdout.splitlines()[0].split("\t")
    assert len(columns) >= 5
    heads = re.findall(
        r"^\.TP\n\.B (.*)$", section(PAGES[f"ckpt-{line.split()[1]}.1"], "OUTPUT"), re.MULTILINE
    )
    described = set(re.findall(r"\w+", plain(" ".join(heads))))
    assert set(columns) <= described


def test_every_output_format_is_described() -> None:
    heads = re.findall(r"^\.TP\n\.B (\w+)$", section(PAGES["ckpt.1"], "OUTPUT"), re.MULTILINE)
    assert tuple(heads) == OUTPUT_FORMATS


def test_every_kind_is_described() -> None:
    table = shown_blocks(section(PAGES["ckpt-selection.7"], "KINDS"))[0]
    assert tuple(line.split()[0] for line in table.splitlines()) == KINDS


def test_table_of_dtypes_is_right() -> None:
    (table,) = shown_blocks(section(PAGES["ckpt-bundle.5"], "DTYPES"))
    cells = re.findall(r"(\d+) (\w+) +(\d+|-)(?= |$)", table, re.MULTILINE)
    assert sorted((int(number), name, size) for number, name, size in cells) == [
        (number, dtype.name, "-" if dtype.size is None else str(dtype.size))
        for number, dtype in sorted(DTYPES.items())
    ]


def test_joinable_dtypes_are_named() -> None:
    text = words(section(PAGES["ckpt-bundle.5"], "PARTITIONED TENSORS"))
    listed = re.search(r"joins slices of these dtypes only: ([^.]*)\.", text)
    assert listed
    joinable = {dtype.name for dtype in DTYPES.values() if dtype.joinable}
    assert set(re.findall(r"\w+", listed[1])) - {"and"} == joinable


def dump(name: str) -> bytes:
    """Return the bytes of a dump in the page on the formats, whose offsets have to be right."""
    found = re.search(
        rf'^\.\\" DUMP {name}\n\.EX\n((?s:.*?))^\.EE$', PAGES["ckpt-bundle.5"], re.MULTILINE
    )
    assert found
    data = b""
    for line in plain(found[1]).splitlines():
        row = re.match(r"([0-9a-f]{2})  ((?:[0-9a-f]{2} )*[0-9a-f]{2})(?:   *|$)", line)
        if row:
            assert int(row[1], 16) == len(data), line
            data += bytes.fromhex(row[2])
        else:
            assert line[:4].strip() == "", line
    return data


def test_dump_of_an_index_is_that_of_the_file(tmp_path: Path) -> None:
    ckpttool.save_checkpoint(str(tmp_path / "x"), {"w": np.array([1, -2], np.float32)})
    assert dump("index") == (tmp_path / "x.index").read_bytes()
    data = (tmp_path / "x.data-00000-of-00001").read_bytes()
    assert f"whose bytes are {data.hex(' ')}." in words(PAGES["ckpt-bundle.5"])


def test_dump_of_strings_is_right() -> None:
    assert dump("strings") == encode_strings([b"hi", b"", b"\xff"])[0]


def test_dump_of_a_slice_key_is_right() -> None:
    assert dump("slice") == encode_slice_key(b"p", parse_slice("0,2:-"))


def test_help_names_no_other_command_than_there_is() -> None:
    table: dict[str, Any] = dict(COMMANDS)
    all_names = list(cli.list_commands(generate.page_command("ckpt.1")))
    assert all_names == [*table, *HELPERS]
    listed = re.findall(
        r"^\.BR ckpt\\-([\w\\-]+) \(1\)$", section(PAGES["ckpt.1"], "COMMANDS"), re.M
    )
    assert [name.replace("\\-", "-") for name in listed] == list(table)
