r"""Write the parts of the manual pages that follow from the commands themselves.

    python man/generate.py

Replaces the title line of each page and the text between two marks:

    .\" BEGIN options (made by man/generate.py)
    ...
    .\" END options

The rest of a page is written by hand. Then the pages are written as Markdown, each beside itself,
for people who read them on the web: README.md lists them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import click

from ckpttool import __version__
from ckpttool.cli.main import COMMANDS, cli

if __name__ == "__main__":  # run as a file, with its own folder on the path
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from man import markdown

PAGES = Path(__file__).resolve().parent
# The day of the release. It is fixed, so that every build makes the same pages.
VERSION_DATE = ("0.1.0", "2026-11-20")
_MADE_BY = "(made by man/generate.py)"
_BLOCK = re.compile(
    rf'^\.\\" BEGIN (?P<name>[a-z]+) {re.escape(_MADE_BY)}\n'
    r"(?P<text>(?s:.*?))"
    r'^\.\\" END (?P=name)$',
    re.MULTILINE,
)
_TITLE = re.compile(r"^\.TH .*$", re.MULTILINE)
# Written plainly, these characters come out as others.
_SPELLINGS = {
    "\\": r"\e",
    "-": r"\-",
    "'": r"\(aq",
    "`": r"\(ga",
    "^": r"\(ha",
    "~": r"\(ti",
    '"': r"\(dq",
}


def main() -> None:
    """Update every page and its Markdown, and print the names of the files that changed."""
    texts = {path: refreshed(path.name, path.read_text(encoding="ascii")) for path in pages()}
    for path, text in {**texts, **on_the_web({path.name: texts[path] for path in texts})}.items():
        if not path.exists() or path.read_text(encoding="ascii") != text:
            path.write_text(text, encoding="ascii")
            print(path.relative_to(PAGES.parent))


def on_the_web(sources: Mapping[str, str]) -> dict[Path, str]:
    """Return the Markdown files with their contents.

    Args:
        sources: the pages by file name.
    """
    lines = [
        "# Manual",
        "",
        "Made from the manual pages by `python man/generate.py`; do not edit these files.",
        "",
    ]
    found = {}
    for name, source in sources.items():
        text = found[PAGES / f"{name}.md"] = markdown.page(source, sources)
        purpose = text.partition("## Name\n\n")[2].partition("\n\n")[0].partition(" - ")[2]
        stem, section = name.rsplit(".", 1)
        lines.append(f"- [{stem}({section})]({name}.md): {' '.join(purpose.split())}")
    return {**found, PAGES / "README.md": "\n".join([*lines, ""])}


def pages() -> list[Path]:
    """Return the paths of all pages."""
    return sorted(PAGES.glob("*.[1-8]"))


def refreshed(name: str, text: str) -> str:
    """Return the text of a page with its generated parts up to date.

    Args:
        name: the file of the page, such as "ckpt-ls.1".
        text: the page.
    """
    blocks: dict[str, Callable[[], Iterator[str]]] = {
        "commands": _commands,
        "options": lambda: _options(page_command(name)),
        "environment": lambda: _environment(page_command(name)),
    }
    text = _TITLE.sub(lambda _: title(name), text, count=1)
    return _BLOCK.sub(
        lambda found: "\n".join(
            [
                f'.\\" BEGIN {found["name"]} {_MADE_BY}',
                *blocks[found["name"]](),
                f'.\\" END {found["name"]}',
            ]
        ),
        text,
    )


def title(name: str) -> str:
    """Return the title line of a page: name, section, date and origin."""
    version, date = VERSION_DATE
    if version != __version__:
        raise SystemExit(f"VERSION_DATE has no day for version {__version__}")
    stem, section = name.rsplit(".", 1)
    return f'.TH {escape(stem.upper())} {section} {date} "ckpttool {version}" "ckpttool manual"'


def page_command(name: str) -> click.Context:
    """Return the command of a page of section 1, in its calling context."""
    stem = name.removesuffix(".1")
    top = click.Context(cli, info_name=cli.name, **cli.context_settings)
    if stem == cli.name:
        return top
    found = cli.get_command(top, stem.removeprefix(f"{cli.name}-"))
    if found is None:
        raise SystemExit(f"{name}: there is no such command")
    return click.Context(found, info_name=found.name, parent=top)


def options(ctx: click.Context) -> list[click.Option]:
    """Return the options of a command in the order of its help."""
    return [
        param
        for param in ctx.command.get_params(ctx)
        if isinstance(param, click.Option) and not param.hidden
    ]


def variables(ctx: click.Context) -> dict[str, click.Option]:
    """Return the environment variables of a command, with their options."""
    prefix = ctx.auto_envvar_prefix
    return {
        f"{prefix}_{option.name.upper()}": option
        for option in options(ctx)
        if option.name and not {"--help", "--version"}.intersection(option.opts)
    }


def escape(text: str) -> str:
    """Return text escaped for a page."""
    return "".join(_SPELLINGS.get(char, char) for char in text)


def _commands() -> Iterator[str]:
    for name, entry in COMMANDS.items():
        yield ".TP"
        yield f".BR {escape(f'{cli.name}-{name}')} (1)"
        yield from _sentences(entry.help)


def _options(ctx: click.Context) -> Iterator[str]:
    for option in options(ctx):
        yield ".TP"
        yield _names(option)
        yield from _sentences(option.help or "")
        if isinstance(option.type, click.IntRange) and not option.count:
            yield _limits(option.type)
        if option.multiple:
            yield "May be given more than once."


def _limits(numbers: click.IntRange) -> str:
    if numbers.max is None:
        return f"At least {numbers.min}."
    return f"From {numbers.min} to {numbers.max}."


def _environment(ctx: click.Context) -> Iterator[str]:
    found = variables(ctx)
    width = max(map(len, found))
    yield from (".PP", ".EX")
    for variable, option in found.items():
        name = escape(_longest(option.opts))
        if option.count:
            name += ", this many times"
        elif option.secondary_opts:
            name += f" if 1, {escape(_longest(option.secondary_opts))} if 0"
        elif option.is_flag:
            name += " if 1"
        elif option.multiple:
            name += ", separated by spaces"
        yield f"{variable:<{width}}  {name}"
    yield ".EE"


def _names(option: click.Option) -> str:
    """Return the line that names an option and its value."""
    # Older versions of click give the names of --help in any order.
    spelled = (*sorted(option.opts, key=len), *option.secondary_opts)
    names = [f"\\fB{escape(name)}\\fR" for name in spelled]
    value = ""
    if not option.is_flag and not option.count:
        if isinstance(option.type, click.Choice):
            value = "|".join(f"\\fB{escape(str(choice))}\\fR" for choice in option.type.choices)
        else:
            metavar = option.metavar or (option.name or "").upper()
            value = re.sub(r"\w+", lambda word: f"\\fI{word[0]}\\fR", escape(metavar))
    return ", ".join(names) + (f" {value}" if value else "")


def _sentences(text: str) -> Iterator[str]:
    """Yield text as lines of a page, one sentence on each."""
    for sentence in re.split(r"(?<=[.;:]) +", " ".join(text.split())):
        line = escape(sentence)
        yield f"\\&{line}" if line.startswith((".", "\\(aq")) else line


def _longest(names: list[str]) -> str:
    return max(names, key=len)


if __name__ == "__main__":
    main()
