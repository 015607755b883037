"""The shape of the package: who may import whom, and through which door the outside comes in.

Each test collects everything that breaks its rule and shows the whole list.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.support.fixtures import ROOT

PACKAGE = Path(os.path.normpath(ROOT)) / "ckpttool"

# A part may import itself and all parts on lower levels.
LEVELS = {
    "printable": 0,
    "display": 1,
    "errors": 1,
    "schemas": 1,
    "coding": 2,
    "storage": 3,
    "table": 4,
    "pb": 4,
    "tensor": 5,
    "bundle": 6,
    "interchange": 6,
    "legacy": 6,
    "objects": 6,
    "metagraph": 7,
    "checkpoint": 8,
    "query": 9,
    "surgery": 9,
    "train": 10,
    "render": 10,
    "api": 11,
    "cli": 12,
    "": 13,
    "__main__": 13,
}

# These two see less than what lies below them: of the formats only the values that answers hold.
NARROWER = {
    "render": {
        *("errors", "printable", "schemas", "coding.text", "tensor", "objects", "metagraph"),
        *("checkpoint", "query", "surgery"),
    },
    "cli": {
        *("errors", "printable", "schemas", "storage.locks", "checkpoint", "query", "surgery"),
        *("render", "api"),
    },
}

# Foreign package -> the parts (or single modules) that may import it.
DOORS = {
    "crc32c": {"coding.checksum"},
    "cramjam": {"table"},
    "google": {"pb"},
    "numpy": {"tensor", "query", "train"},
    "ml_dtypes": {"tensor", "query"},
    "h5py": {"interchange.keras_h5"},
    "rich": {"render"},
    "click": {"cli"},
}

LONGEST = 600

# The classes of `train` have the names that they have in TensorFlow.
NAMES_OF_TENSORFLOW = {"Checkpoint", "Module", "Variable"}
# A command and its function, the same change made to a checkpoint and to a plan, and a plan for
# files that is one for live objects too.
TWINS = {
    "average",
    "command",
    "diff_series",
    "message_class",
    "prune",
    "rename",
    "restore_plan",
    "script",
}

MAP_LINE = re.compile(r"^ *([a-z_0-9]+(?:, [a-z_0-9]+)*) {2,}\S")


@dataclass(frozen=True)
class Import:
    """One import in one module.

    Attributes:
        module: where it stands; dotted, below the package.
        target: dotted name of what is imported.
        line: where.
        typing: it is for type checkers alone.
    """

    module: str
    target: str
    line: int
    typing: bool

    @property
    def own(self) -> str | None:
        """The module of ours that is imported; None for the outside."""
        if self.target.split(".")[0] != "ckpttool":
            return None
        inner = self.target.split(".")[1:]
        while inner and ".".join(inner) not in modules():
            inner.pop()
        return ".".join(inner)

    def __str__(self) -> str:
        return f"{self.module}:{self.line} imports {self.target}"


@cache
def modules() -> dict[str, Path]:
    """Dotted name below the package (empty for the package itself) -> file."""
    out = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = list(path.relative_to(PACKAGE).with_suffix("").parts)
        out[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return out


@cache
def tree(name: str) -> ast.Module:
    return ast.parse(modules()[name].read_text(encoding="utf-8"))


def targets(node: ast.AST) -> list[str]:
    """Return what a node imports, also where it is only named to be imported later."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports are absolute"
        assert node.module is not None
        # `from ckpttool import pb` imports the package pb.
        return [f"{node.module}.{alias.name}" for alias in node.names]
    named = isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value
    return [named] if named and re.fullmatch(r"ckpttool(\.[a-z_0-9]+)+", named) else []


def walk(module: str, node: ast.AST, *, typing: bool = False) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        for target in targets(child):
            yield Import(module, target, child.lineno, typing)  # type: ignore[attr-defined]
        checking = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)
        yield from walk(module, child, typing=typing or checking)


@cache
def imports() -> tuple[Import, ...]:
    return tuple(found for name in modules() for found in walk(name, tree(name)))


def part_of(module: str) -> str:
    return module.split(".")[0]


def test_imports_run_downward() -> None:
    assert {part_of(name) for name in modules()} == set(LEVELS)
    offenders = []
    for found in imports():
        part, other = part_of(found.module), found.own
        if not other or part_of(other) == part:
            continue
        below = LEVELS[part_of(other)] < LEVELS[part]
        seen = NARROWER.get(part, LEVELS)
        if not below or not {part_of(other), other} & set(seen):
            offenders.append(str(found))
    assert offenders == []


def test_the_outside_comes_in_by_its_doors() -> None:
    foreign = [
        (found, found.target.split(".")[0])
        for found in imports()
        if found.target.split(".")[0] not in ("ckpttool", *sys.stdlib_module_names)
    ]
    offenders = [
        str(found)
        for found, name in foreign
        if not found.typing and not {found.module, part_of(found.module)} & DOORS.get(name, set())
    ]
    assert offenders == []
    assert {name for _, name in foreign} >= set(DOORS), "a door that nothing uses"


def test_no_circles() -> None:
    """No module needs another that needs the first one, be it only when a function is called."""
    edges: dict[str, set[str]] = defaultdict(set)
    for found in imports():
        if not found.typing and found.own and found.own != found.module:
            edges[found.module].add(found.own)
    done: set[str] = set()
    circles: list[str] = []

    def visit(name: str, trail: tuple[str, ...]) -> None:
        if name in trail:
            circles.append(" -> ".join((*trail[trail.index(name) :], name)))
        elif name not in done:
            for following in sorted(edges[name]):
                visit(following, (*trail, name))
            done.add(name)

    for name in sorted(modules()):
        visit(name, ())
    assert circles == []


def test_modules_say_what_they_are_and_are_short() -> None:
    offenders = []
    for name, path in modules().items():
        text = path.read_text(encoding="utf-8")
        docstring = ast.get_docstring(tree(name)) or ""
        if not docstring.split("\n")[0].endswith((".", ":")):
            offenders.append(f"{name} does not begin with a sentence that says what it is")
        if tree(name).body[1:] and "from __future__ import annotations" not in text:
            offenders.append(f"{name} evaluates its annotations")
        if text.count("\n") > LONGEST:
            offenders.append(f"{name} has {text.count(chr(10))} lines")
    assert offenders == []


def mapped(package: str) -> set[str]:
    """Return the modules that a package's docstring lists."""
    docstring = ast.get_docstring(tree(package)) or ""
    found = [match[1] for line in docstring.split("\n") if (match := MAP_LINE.match(line))]
    return {name for names in found for name in names.split(", ")}


def test_packages_map_their_modules() -> None:
    packages = [name for name, path in modules().items() if name and path.stem == "__init__"]
    offenders = {}
    for package in packages:
        below = {name.removeprefix(package + ".") for name in modules() if name != package}
        members = {name for name in below if "." not in name and f"{package}.{name}" in modules()}
        if mapped(package) != members:
            offenders[package] = mapped(package) ^ members
    assert offenders == {}


def is_type_assertion(node: ast.Assert) -> bool:
    return ast.unparse(node.test).startswith("isinstance(")


def test_code_keeps_the_house_rules() -> None:
    """Only render and cli print; no text runs as code; asserts check no input; names are unique.

    Asserts vanish under `python -O`: all that they may say is a type that is known anyway.
    """
    offenders = []
    homes: dict[str, list[str]] = defaultdict(list)
    for name in modules():
        for node in ast.walk(tree(name)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                banned = {"eval", "exec", "compile", "__import__"}
                if part_of(name) not in ("render", "cli"):
                    banned |= {"print", "input", "exit", "quit"}
                if node.func.id in banned:
                    offenders.append(f"{name}:{node.lineno} calls {node.func.id}")
            elif isinstance(node, ast.Assert) and not is_type_assertion(node):
                offenders.append(f"{name}:{node.lineno} asserts more than a type")
        for node in tree(name).body:
            if not isinstance(node, ast.ClassDef | ast.FunctionDef):
                continue
            if part_of(name) == "train" and node.name in NAMES_OF_TENSORFLOW:
                continue
            if not node.name.startswith("_") and node.name not in TWINS:
                homes[node.name].append(name)
    twice = {name: where for name, where in homes.items() if len(where) > 1}
    offenders += [f"{name} stands in {where}" for name, where in twice.items()]
    assert offenders == []
