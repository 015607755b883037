"""Every graph file of the fixtures beside what the TensorFlow that wrote it makes of it.

CKPT_TF115_PYTHON, CKPT_TF14_PYTHON and CKPT_TF012_PYTHON name interpreters that have 1.15, 1.4 and
0.12; TensorFlow 2 is that of this interpreter.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ckpttool.metagraph.document import (
    GraphDocument,
    JsonForm,
    graph_from_json,
    read_graph,
)
from tests.support.fixtures import FIXTURES, manifest

ORACLE = Path(__file__).with_name("graph_oracle.py")
VARIABLES = {
    "tf0.12": "CKPT_TF012_PYTHON",
    "tf1.4": "CKPT_TF14_PYTHON",
    "tf1.15": "CKPT_TF115_PYTHON",
}
ENDINGS = (".meta", ".pbtxt", "saved_model.pb", "fingerprint.pb")
FILES = sorted(
    {path for row in manifest() for path in row["files"] if path.endswith(ENDINGS)},
    key=lambda path: (path.split("/")[1], path),
)
LOADED = {
    "saved_model/tf2.21/module/model": ["serve"],
    "saved_model/tf2.21/tf_keras/model": ["serve"],
    "saved_model/tf2.21/no_variables/model": ["serve"],
    "saved_model/tf2.21/v1_builder/model": ["serve"],
    "saved_model/tf1.15/builder/model": ["serve", "gpu"],
}


STARTED: list[subprocess.Popen[str]] = []


def release_of(path: str) -> str:
    return path.split("/")[1]


def python_of(release: str) -> str:
    if release == "tf2.21":
        if importlib.util.find_spec("tensorflow") is None:
            pytest.skip("TensorFlow is not installed for this interpreter")
        return sys.executable
    python = os.environ.get(VARIABLES[release])
    if not python:
        pytest.skip(f"{VARIABLES[release]} names no interpreter that has {release}")
    return python


@cache
def oracle(python: str) -> subprocess.Popen[str]:
    """Start a TensorFlow for all tests: to import it takes longer than most answers."""
    process = subprocess.Popen(
        [python, str(ORACLE)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    STARTED.append(process)
    return process


@pytest.fixture(scope="module", autouse=True)
def _ended() -> Iterator[None]:
    """End what was started."""
    yield
    for process in STARTED:
        process.communicate(timeout=60)


def ask(python: str, *questions: list[str]) -> list[Any]:
    """Return the answers of TensorFlow."""
    process = oracle(python)
    assert process.stdin is not None
    assert process.stdout is not None
    values = []
    for question in questions:
        process.stdin.write(json.dumps(question) + "\n")
        process.stdin.flush()
        line = next((line for line in process.stdout if line.startswith("{")), None)
        assert line, f"TensorFlow did not survive {question}"
        answer = json.loads(line)
        assert "error" not in answer, answer
        values.append(answer["value"])
    return values


def fixture(path: str) -> tuple[str, GraphDocument]:
    full = os.path.join(FIXTURES, path)
    return full, read_graph(full)


def our_json(document: GraphDocument) -> bytes:
    pieces: list[str] = []
    assert document.write_json(pieces.append, JsonForm()) == ()
    return "".join(pieces).encode("ascii")


@cache
def their_json(release: str) -> dict[str, Any]:
    paths = [path for path in FILES if release_of(path) == release]
    questions = [["json", fixture(path)[0], fixture(path)[1].kind] for path in paths]
    return dict(zip(paths, ask(python_of(release), *questions), strict=True))


@pytest.mark.parametrize("path", FILES)
def test_json_is_that_of_protobuf(path: str) -> None:
    expected = their_json(release_of(path))[path]
    assert json.loads(our_json(fixture(path)[1])) == expected


@pytest.mark.parametrize("release", ["tf0.12", "tf1.4", "tf1.15", "tf2.21"])
def test_all_ways_lead_back(release: str, tmp_path: Path) -> None:
    questions, bytes_first = [], []
    for number, path in enumerate(path for path in FILES if release_of(path) == release):
        full, document = fixture(path)
        written = {
            "binary.pb": document.data(),
            "json.pb": graph_from_json(our_json(document), path).data(),
            "text.pbtxt": document.text().encode(),
        }
        for name, data in written.items():
            other = tmp_path / f"{number}-{name}"
            other.write_bytes(data)
            questions.append(["same", full, str(other), document.kind])
            bytes_first.append(not name.startswith("text"))
    assert len(questions) >= 6
    answers = ask(python_of(release), *questions)
    for question, from_bytes, (equal, equal_json) in zip(
        questions, bytes_first, answers, strict=True
    ):
        # In text an Any is a message, and its bytes are made anew.
        assert equal_json, question
        assert equal or (not from_bytes and "session_bundle" in question[1]), question


@pytest.mark.parametrize("release", ["tf0.12", "tf1.4", "tf1.15", "tf2.21"])
def test_text_is_that_of_tensorflow(release: str, tmp_path: Path) -> None:
    paths = [path for path in FILES if path.startswith(f"meta/{release}/")]
    found = [fixture(path) for path in paths]
    texts = ask(python_of(release), *(["text", full, one.kind] for full, one in found))
    assert len(texts) >= 2
    for (full, document), text in zip(found, texts, strict=True):
        theirs = tmp_path / "theirs.pbtxt"
        theirs.write_text(text, encoding="utf-8")
        ours = tmp_path / "ours.pbtxt"
        ours.write_text(document.text(), encoding="utf-8")
        assert read_graph(str(theirs)).data() == document.data(), full
        assert read_graph(str(ours)).data() == document.data(), full


@pytest.mark.parametrize("reader", ["tf1.15", "tf2.21"])
def test_import_meta_graph(reader: str, tmp_path: Path) -> None:
    python = python_of(reader)
    known = [reader] if reader == "tf2.21" else ["tf0.12", "tf1.4", "tf1.15"]
    paths = [
        path
        for path in FILES
        if path.startswith("meta/") and path.endswith(".meta") and release_of(path) in known
    ]
    assert len(paths) >= 3
    for number, path in enumerate(paths):
        full, document = fixture(path)
        back = graph_from_json(our_json(document), path)
        for name, data in (
            ("a.meta", document.data()),
            ("b.meta", back.data()),
            ("c.pbtxt", document.text().encode()),
        ):
            (tmp_path / f"{number}{name}").write_bytes(data)
        questions = [["import", full]]
        questions += [["import", str(tmp_path / f"{number}{n}")] for n in ("a.meta", "b.meta")]
        questions.append(["import", str(tmp_path / f"{number}c.pbtxt")])
        original, *rewritten = ask(python, *questions)
        assert len(original) > 10
        assert rewritten == [original] * 3, path


@pytest.mark.parametrize("path", LOADED)
def test_saved_models_are_loaded(path: str, tmp_path: Path) -> None:
    python = python_of("tf1.15" if "tf1.15" in path else "tf2.21")
    source = os.path.join(FIXTURES, path)
    document = read_graph(os.path.join(source, "saved_model.pb"))
    back = graph_from_json(our_json(document), path)
    folders = [source]
    for name, file, data in (
        ("binary", "saved_model.pb", document.data()),
        ("json", "saved_model.pb", back.data()),
        ("text", "saved_model.pbtxt", document.text().encode()),
    ):
        shutil.copytree(source, tmp_path / name)
        (tmp_path / name / "saved_model.pb").unlink()
        (tmp_path / name / file).write_bytes(data)
        folders.append(str(tmp_path / name))
    original, *rewritten = ask(python, *(["load", folder, *LOADED[path]] for folder in folders))
    assert original
    assert rewritten == [original] * 3
