"""The shape of the package: who may import whom, and through which door the outside comes in."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.support.fixtures import ROOT

PACKAGE = Path(os.path.normpath(ROOT)) / "ckpttool"

# A part may import itself and all parts on lower levels.
LEVELS = {
    "printable": 0,
    "errors": 1,
    "schemas": 1,
    "coding": 2,
    "storage": 2,
    "table": 3,
    "pb": 3,
    "tensor": 4,
    "bundle": 5,
    "legacy": 5,
    "meta": 5,
    "checkpoint": 6,
    "query": 7,
    "surgery": 7,
    "render": 8,
    "cli": 9,
    "": 10,
    "__main__": 10,
}

# These two see less than what lies below them.
NARROWER = {
    "render": {"errors", "printable", "schemas", "tensor", "checkpoint", "query", "surgery"},
    "cli": {"errors", "printable", "schemas", "checkpoint", "query", "surgery", "render"},
}

# Foreign package -> the parts (or single modules) that may import it.
DOORS = {
    "crc32c": {"coding.checksum"},
    "cramjam": {"table"},
    "google": {"pb"},
    "numpy": {"tensor", "query"},
    "ml_dtypes": {"tensor", "query"},
    "rich": {"render"},
    "click": {"cli"},
}

LONGEST = 400
MAP_LINE = re.compile(r"^ *([a-z_0-9]+(?:, [a-z_0-9]+)*) {2,}\S")


@dataclass(frozen=True)
class Import:
    """One import in one module.

    Attributes:
        target: dotted name of what is imported.
        line: where.
        typing: it is for type checkers alone.
        lazy: it happens in a function.
    """

    target: str
    line: int
    typing: bool
    lazy: bool


def module_name(path: Path) -> str:
    """Return the dotted name below the package; empty for the package itself."""
    parts = list(path.relative_to(PACKAGE).with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts)


@cache
def modules() -> dict[str, Path]:
    return {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def tree(name: str) -> ast.Module:
    return ast.parse(modules()[name].read_text(encoding="utf-8"))


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


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


def walk(node: ast.AST, *, typing: bool = False, lazy: bool = False) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        for target in targets(child):
            named = isinstance(child, ast.Constant)
            yield Import(target, child.lineno, typing, lazy or named)  # type: ignore[attr-defined]
        yield from walk(
            child,
            typing=typing or is_type_checking(child),
            lazy=lazy or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda),
        )


@cache
def imports(name: str) -> tuple[Import, ...]:
    return tuple(walk(tree(name)))


def own_module(target: str) -> str | None:
    """Return the module of ours that a target is or lies in; None for the outside."""
    if target.split(".")[0] != "ckpttool":
        return None
    inner = target.split(".")[1:]
    while inner and ".".join(inner) not in modules():
        inner.pop()
    return ".".join(inner)


def part_of(module: str) -> str:
    return module.split(".")[0]


EACH = pytest.mark.parametrize("name", sorted(modules()), ids=lambda name: name or "ckpttool")


def test_every_part_has_a_level() -> None:
    assert {part_of(name) for name in modules()} <= set(LEVELS)
    assert {"coding", "storage", "table", "tensor", "bundle"} <= {part_of(n) for n in modules()}


@EACH
def test_levels(name: str) -> None:
    part = part_of(name)
    for found in imports(name):
        module = own_module(found.target)
        if module is None or module == "" or part_of(module) == part:
            continue
        where = f"{name}:{found.line} imports {module}"
        assert LEVELS[part_of(module)] < LEVELS[part], where
        if part in NARROWER:
            assert part_of(module) in NARROWER[part], where


@EACH
def test_doors(name: str) -> None:
    for found in imports(name):
        foreign = found.target.split(".")[0]
        if found.typing or foreign in ("ckpttool", *sys.stdlib_module_names):
            continue
        where = f"{name}:{found.line} imports {foreign}"
        assert foreign in DOORS, where
        assert {name, part_of(name)} & DOORS[foreign], where


def test_every_door_is_used() -> None:
    used = {found.target.split(".")[0] for name in modules() for found in imports(name)}
    assert set(DOORS) - used <= {"rich"}


def test_no_cycles() -> None:
    """No module needs another to be imported that needs the first one."""
    edges = {
        name: {
            module
            for found in imports(name)
            if not found.typing and not found.lazy
            for module in [own_module(found.target)]
            if module and module != name
        }
        for name in modules()
    }
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join((*trail, name))
        if name not in done:
            for following in sorted(edges[name]):
                visit(following, (*trail, name))
            done.add(name)

    for name in sorted(edges):
        visit(name, ())


@EACH
def test_modules_are_short(name: str) -> None:
    lines = modules()[name].read_text(encoding="utf-8").count("\n")
    assert lines <= LONGEST, f"{name} has {lines} lines"


@EACH
def test_modules_say_what_they_are(name: str) -> None:
    docstring = ast.get_docstring(tree(name))
    assert docstring
    assert docstring.split("\n")[0].endswith((".", ":"))
    future = "from __future__ import annotations"
    if tree(name).body[1:]:
        assert future in modules()[name].read_text(encoding="utf-8")


def mapped(package: str) -> set[str]:
    """Return the modules that a package's docstring lists."""
    docstring = ast.get_docstring(tree(package)) or ""
    out: set[str] = set()
    for line in docstring.split("\n"):
        match = MAP_LINE.match(line)
        if match:
            out.update(match[1].split(", "))
    return out


PACKAGES = [name for name, path in sorted(modules().items()) if name and path.name == "__init__.py"]


@pytest.mark.parametrize("package", [name for name in PACKAGES if mapped(name)])
def test_the_map_of_a_package_is_true(package: str) -> None:
    members = {
        name.removeprefix(package + ".") for name in modules() if name.startswith(package + ".")
    }
    assert mapped(package) == {member for member in members if "." not in member}


def test_most_packages_have_a_map() -> None:
    assert {name for name in PACKAGES if not mapped(name)} <= {"schemas"}


@EACH
def test_only_render_and_cli_print(name: str) -> None:
    calls = [node for node in ast.walk(tree(name)) if isinstance(node, ast.Call)]
    names = {node.func.id for node in calls if isinstance(node.func, ast.Name)}
    if part_of(name) not in ("render", "cli"):
        assert not names & {"print", "input", "exit", "quit"}
    assert not names & {"eval", "exec", "compile", "__import__"}


@EACH
def test_asserts_check_no_input(name: str) -> None:
    """Asserts vanish under `python -O`; all that they may say is a type that is known anyway."""
    asserts = [node for node in ast.walk(tree(name)) if isinstance(node, ast.Assert)]
    assert all(ast.unparse(node.test).startswith("isinstance(") for node in asserts)
