"""Shell completion, through click: commands, options, paths, and the names in a checkpoint.

The scripts in `completions/` pass the line up to the cursor and get one candidate a line, with a
tab and a description if there is one. `_CKPT_COMPLETE=bash_source ckpt` prints a script, and so do
`zsh_source` and `fish_source`. Nothing here may fail or print an error while somebody types.

The line is split here, and the scripts are our own, because click's scripts pass words as the shell
split them, and bash cuts at `=` and `:`. With click 8.5 `--kind=we` finds no candidate, and
`=net/l1/k` loses its mark.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from importlib.resources import files
from typing import ClassVar

import click
from click.shell_completion import (
    CompletionItem,
    ShellComplete,
    add_completion_class,
    shell_complete,
)

from ckpttool.cli.failures import PROGRAM
from ckpttool.printable import printable

SCRIPTS = {"bash": "ckpt.bash", "zsh": "_ckpt", "fish": "ckpt.fish"}
LINE_VARIABLE = "_CKPT_LINE"
WORDBREAKS_VARIABLE = "_CKPT_WORDBREAKS"
_MAX_CANDIDATES = 5000
_MEMBER = re.compile(r"\.(?:index|data-[0-9]{5,}-of-[0-9]{5,})\Z|\.tempstate[0-9]+\Z")
_NEEDS_QUOTES = re.compile(r"[^\w@%+=:,./~-]")


@dataclass(slots=True)
class TypedWord:
    """The word under the cursor, as far as it was typed.

    Attributes:
        value: its meaning, without quotes and backslashes.
        raw: as typed.
        quote: the quote open at its end, if any.
        quote_at: where in `raw` that quote was opened.
    """

    value: str = ""
    raw: str = ""
    quote: str = ""
    quote_at: int = 0


def split_line(line: str) -> tuple[list[str], TypedWord]:
    """Split a command line as a shell would; return the whole words and the one being typed."""
    words: list[str] = []
    word = TypedWord()
    escaped = started = False
    for char in line:
        if escaped:
            word.value += char
            escaped = False
        elif char == "\\" and word.quote != "'":
            escaped = started = True
        elif word.quote:
            if char == word.quote:
                word.quote = ""
            else:
                word.value += char
        elif char in "'\"":
            word.quote, word.quote_at, started = char, len(word.raw), True
        elif char.isspace():
            if started:
                words.append(word.value)
                word, started = TypedWord(), False
            continue
        else:
            word.value += char
            started = True
        word.raw += char
    return words, word


class LineComplete(ShellComplete):
    """Completion for a shell whose script passes the line as typed."""

    typed = TypedWord()

    def source(self) -> str:
        """Return the script of the shell."""
        script = files("ckpttool.cli") / "completions" / SCRIPTS[self.name]
        return script.read_text(encoding="utf-8").removesuffix("\n")

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the whole words after the name of the program, and the one being typed."""
        words, self.typed = split_line(os.environ.get(LINE_VARIABLE, ""))
        return words[1:], self.typed.value

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        """Return candidates for the whole word, `--option=` included."""
        option = re.match(r"-[^=]*=", incomplete)
        before = option[0] if option else ""
        found: list[CompletionItem] = []
        for item in super().get_completions(args, incomplete):
            if item.type == "plain":
                found.append(CompletionItem(before + str(item.value), help=item.help))
            else:  # an option that takes a path; click leaves it to the shell
                listed = complete_paths(str(item.value), folders_only=item.type == "dir")
                found += [CompletionItem(before + each) for each in listed]
        return [item for item in found if str(item.value).isprintable()][:_MAX_CANDIDATES]

    def format_completion(self, item: CompletionItem) -> str:
        """Return the line for one candidate."""
        about = " ".join((item.help or "").split())
        return f"{item.value}\t{about}" if about else str(item.value)


class ZshLineComplete(LineComplete):
    """Completion for zsh, which quotes what it inserts."""

    name: ClassVar[str] = "zsh"


class FishLineComplete(LineComplete):
    """Completion for fish, which quotes what it inserts."""

    name: ClassVar[str] = "fish"


class BashLineComplete(LineComplete):
    """Completion for bash, which replaces only what follows the last word break, as it is told."""

    name: ClassVar[str] = "bash"

    def format_completion(self, item: CompletionItem) -> str:
        """Return the text for the part that bash replaces, quoted as needed."""
        kept, quote = self._kept()
        value = str(item.value)
        if not value.startswith(kept):
            return value
        rest = value[len(kept) :]
        if quote == "'":
            return rest.replace("'", "'\\''")
        if quote:
            return re.sub(r'(["\\$`])', r"\\\1", rest)
        return _NEEDS_QUOTES.sub(lambda match: "\\" + match[0], rest)

    def _kept(self) -> tuple[str, str]:
        """Return the meaning of the part of the word that bash keeps, and the open quote."""
        typed = self.typed
        if typed.quote:
            _, before = split_line(typed.raw[: typed.quote_at])
            return before.value, typed.quote
        breaks = set(os.environ.get(WORDBREAKS_VARIABLE, "")).difference(" \t\n'\"\\")
        for at in range(len(typed.raw) - 1, -1, -1):
            if typed.raw[at] in breaks and typed.raw[at - 1 : at] != "\\":
                return split_line(typed.raw[: at + 1])[1].value, ""
        return "", ""


def answer_shell(cli: click.Command, variable: str, instruction: str) -> int:
    """Print a completion script or candidates; return the exit code.

    Args:
        cli: the command to complete.
        variable: the environment variable that asks for completion.
        instruction: its value: `bash_source`, `bash_complete` and so on.
    """
    for shell in (BashLineComplete, ZshLineComplete, FishLineComplete):
        add_completion_class(shell)
    with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stderr(nowhere):
        try:
            return shell_complete(cli, {}, PROGRAM, variable, instruction)
        except Exception:
            return 0


def complete_addresses(incomplete: str) -> list[CompletionItem]:
    """Complete the address of a checkpoint: folders, prefixes, and other files.

    The files of checkpoints are offered only if nothing else matches.
    """
    paths = complete_paths(incomplete)
    prefixes = {path.removesuffix(".index") for path in paths if path.endswith(".index")}
    addresses = prefixes.union(path for path in paths if not _MEMBER.search(path))
    addresses = {path for path in addresses if path.startswith(incomplete)}
    return [CompletionItem(path) for path in sorted(addresses or paths)]


def complete_paths(incomplete: str, *, folders_only: bool = False) -> list[str]:
    """Return the paths that begin like this; folders end in a slash."""
    folder, base = os.path.split(incomplete)
    found: list[str] = []
    try:
        with os.scandir(os.path.expanduser(folder) or os.curdir) as entries:
            for entry in entries:
                if not entry.name.startswith(base) or (entry.name[0] == "." != base[:1]):
                    continue
                if entry.is_dir():
                    found.append(os.path.join(folder, entry.name) + "/")
                elif not folders_only:
                    found.append(os.path.join(folder, entry.name))
    except (OSError, ValueError):
        return []
    return sorted(found)


def complete_names(paths: Sequence[str], incomplete: str) -> list[CompletionItem]:
    """Complete a key or an object path of the checkpoints, scope by scope, else a variable name.

    Args:
        paths: the typed addresses of checkpoints.
        incomplete: the beginning of a name, as `printable` spells it, perhaps after `=`; after `@`
            it is a path.
    """
    if incomplete.startswith("@"):
        return [CompletionItem(f"@{path}") for path in complete_paths(incomplete[1:])]
    mark = "=" if incomplete.startswith("=") else ""
    typed = incomplete[len(mark) :]
    found: set[str] = set()
    for path in paths:
        found.update(_next_segments(_names(path, typed), typed))
    for path in () if found else paths:
        found.update(_next_segments(_names(path, typed, variables=True), typed))
    return [CompletionItem(mark + name) for name in sorted(found)]


def _names(path: str, typed: str, *, variables: bool = False) -> Iterable[str]:
    """Return the object paths in a checkpoint, and the keys without one; or the variable names.

    If the typed text contains TensorFlow's `/.ATTRIBUTES/...`, return all keys.
    """
    from ckpttool.checkpoint.open import opened
    from ckpttool.errors import CkptError

    try:
        with opened(os.path.expanduser(path)) as checkpoint:
            if variables:
                return map(printable, list(checkpoint.variable_names.values()))
            keys = list(checkpoint.entries)
            if "/." not in typed:
                keys = [checkpoint.object_path(key) or key for key in keys]
    except CkptError:
        return ()
    return map(printable, keys)


def _next_segments(names: Iterable[str], typed: str) -> set[str]:
    """Return the names that begin as `typed` does, each up to its next slash."""
    whole: set[str] = set()
    scopes: set[str] = set()
    hidden: set[str] = set()  # scopes with only parts that begin with a dot
    for name in names:
        if name.startswith(typed):
            slash = name.find("/", len(typed))
            if slash < 0:
                whole.add(name)
            elif name.startswith(".", slash + 1):
                hidden.add(name[: slash + 1])
            else:
                scopes.add(name[: slash + 1])
    return whole | scopes | {scope for scope in hidden if scope[:-1] not in whole}
