"""What the package offers: names, documentation with examples, types, paths, short forms."""

from __future__ import annotations

import ast
import doctest
import inspect
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import ckpttool
from ckpttool import surgery, train
from ckpttool.surgery.writing.write import Writing, write
from man import examples

FACES = (ckpttool, surgery, train)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("face")
    examples.make(path)
    return path


@pytest.fixture
def inside(folder: Path) -> Iterator[Path]:
    before = os.getcwd()
    os.chdir(folder)
    yield folder
    os.chdir(before)


@pytest.mark.parametrize("face", FACES, ids=lambda face: str(face.__name__))
def test_names_agree(face: object) -> None:
    names = list(face.__all__)  # type: ignore[attr-defined]
    assert names == sorted(names) and len(set(names)) == len(names)
    assert set(names) <= set(dir(face))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        face.nothing  # type: ignore[attr-defined]  # noqa: B018
    text = Path(inspect.getfile(face)).read_text(encoding="utf-8")  # type: ignore[arg-type]
    typed = {
        alias.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("ckpttool")
        for alias in node.names
    }
    assert typed | {"__version__"} == set(names) | {"__version__"}
    for name in names:
        value = getattr(face, name)
        assert name == "__version__" or inspect.getdoc(value), name
        if inspect.isfunction(value):
            assert value.__name__ == name
            wanted = inspect.signature(value).parameters
            told = inspect.getdoc(value) or ""
            missing = [each for each in wanted if f"{each}:" not in told]
            assert not missing or len(wanted) < 2, (name, missing)


def test_submodules_take_no_name() -> None:
    """The import of a submodule binds its name in the package, over a function of that name."""
    for face in FACES:
        assert face.__file__ is not None
        modules = {path.stem for path in Path(face.__file__).parent.iterdir()}
        assert modules & set(face.__all__) <= {"surgery", "train"}


def test_examples(inside: Path) -> None:
    failed = []
    count = 0
    finder = doctest.DocTestFinder(recurse=True)
    for name in ckpttool.__all__:
        value = getattr(ckpttool, name)
        if not (inspect.isfunction(value) or inspect.isclass(value)):
            continue
        for case in finder.find(value, name, module=False, globs={"ckpttool": ckpttool}):
            count += len(case.examples)
            result = doctest.DocTestRunner(verbose=False).run(case)
            failed += [case.name] if result.failed else []
    assert failed == []
    assert count > 15


def test_keywords_for_writing_are_those_of_write() -> None:
    parameters = inspect.signature(write).parameters
    assert list(Writing.__annotations__) == list(parameters)[2:]


def test_paths(folder: Path, tmp_path: Path) -> None:
    ckpttool.save_checkpoint(tmp_path / "new" / "ckpt-1", {"w": np.zeros(3)})
    assert ckpttool.load_variable(tmp_path / "new" / "ckpt-1", "w").shape == (3,)
    assert ckpttool.list_variables(tmp_path / "new" / "ckpt-1") == [("w", [3])]
    with ckpttool.open_checkpoint(tmp_path / "new" / "ckpt-1") as ckpt:
        surgery.write(surgery.Plan.of(ckpt), tmp_path / "new" / "ckpt-2")
    text = b"out/ckpt-1"
    for call in (
        lambda: ckpttool.save_checkpoint(text, {"w": np.zeros(3)}),  # type: ignore[arg-type]
        lambda: ckpttool.open_checkpoint(text),  # type: ignore[arg-type]
        lambda: ckpttool.latest_checkpoint(text),  # type: ignore[arg-type]
        lambda: ckpttool.verify(text),  # type: ignore[arg-type]
        lambda: ckpttool.diff(text, text),  # type: ignore[arg-type]
        lambda: ckpttool.check(folder / "ckpts", text),  # type: ignore[arg-type]
        lambda: ckpttool.rename(text, rules={"a": "b"}, dry_run=True),  # type: ignore[call-overload]
        lambda: ckpttool.rename(folder / "ckpts", text, {"net": "b"}),  # type: ignore[call-overload]
        lambda: ckpttool.convert_legacy(text, dry_run=True),  # type: ignore[arg-type]
        lambda: ckpttool.export_meta_json(text),  # type: ignore[arg-type]
        lambda: surgery.read_map(text),  # type: ignore[arg-type]
    ):
        with pytest.raises(TypeError, match=r"a path must be str or os\.PathLike"):
            call()


def test_tensors(folder: Path) -> None:
    with ckpttool.open_checkpoint(folder / "ckpts") as ckpt:
        tensor = ckpt.tensor("net/l1/kernel")
        whole = ckpt["net/l1/kernel"]
        assert (tensor.shape, tensor.dtype.name, tensor.kind) == (whole.shape, "float32", "weight")
        assert tensor.name == tensor.object_path == "net/l1/kernel" and tensor.key in ckpt.entries
        assert tensor.variable_name == "net_1/dense_1/kernel"
        assert ckpt.tensor("iterator/.ITERATOR_STATE").variable_name is None
        for index in (np.s_[0], np.s_[0, :3], np.s_[..., -1], np.s_[:, ::-2], np.s_[np.int64(0)]):
            assert np.array_equal(tensor[index], whole[index]), index
        assert np.array_equal(np.asarray(tensor), whole) and len(tensor) == 1
        stats = tensor.stats()
        assert stats is not None and stats.mean == pytest.approx(float(whole.mean()))
        for wrong in (np.s_["a"], np.s_[1.5], np.s_[True], np.s_[None]):
            with pytest.raises(TypeError):
                tensor[wrong]
        for outside in (np.s_[1], np.s_[0, 0, 0], np.s_[..., ...], np.s_[::0]):
            with pytest.raises(ckpttool.SelectionError):
                tensor[outside]


def test_entries_take_every_name(folder: Path) -> None:
    with ckpttool.open_checkpoint(folder / "ckpts") as ckpt:
        for key in ckpt:
            for name in ckpt.names_of(key):
                assert ckpt.entries[name] == ckpt.entries[key] and name in ckpt.entries
        assert list(ckpt.entries) == list(ckpt) == sorted(ckpt)
        with pytest.raises(ckpttool.MissingKeyError):
            ckpt.entries["net/l1/kernal"]
        assert ckpt.step == 10


def test_short_forms(folder: Path, tmp_path: Path) -> None:
    ckpttool.save_checkpoint(tmp_path / "a", {f"a{n}": np.full(2, n) for n in range(10_000)})
    ckpttool.save_checkpoint(tmp_path / "b", {f"a{n}": np.full(2, n + 1.5) for n in range(10_000)})
    found = ckpttool.diff(tmp_path / "a", tmp_path / "b")
    assert repr(found).endswith("different (10,000 dtype)>")
    assert "~ a#          10,000  int64 → float64" in str(found).splitlines()
    assert len(found.to_dict()["tensors"]) == 10_000
    with ckpttool.open_checkpoint(folder / "ckpts") as ckpt:
        assert repr(ckpt) == (
            f"<Checkpoint '{ckpt.prefix}': V2, object-based, 14 tensors and the object graph, "
            "2.7 KiB>"
        )
        plan = surgery.prune(surgery.Plan.of(ckpt), slots=True)
        receipt = surgery.write(plan, dry_run=True)
        for value in (ckpt, ckpt.entries, ckpt.tensor("net/l1/kernel"), plan, receipt):
            assert "\n" not in repr(value) and len(repr(value)) < 300, repr(value)
