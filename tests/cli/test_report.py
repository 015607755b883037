"""`ckpt report` as its users run it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import ckpttool
from ckpttool.cli.main import main
from tests.support.fixtures import FIXTURES

GUIDE = f"{FIXTURES}/v2/tf2.21/guide_legacy_adam/tf_ckpts"


def document(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, object]:
    """Return the JSON of a run, which its schema has to describe."""
    assert main(["report", *words, "--json"]) == code
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    schema = Path(ckpttool.__file__).parent / "schemas" / "ckpt.report.1.json"
    jsonschema.validate(found, json.loads(schema.read_text(encoding="utf-8")))
    return found


def test_page_is_written_and_not_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "report.html"
    assert main(["report", GUIDE, "-o", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert text == ckpttool.report(GUIDE).html
    page.write_text("mine")
    assert main(["report", GUIDE, "-o", str(page)]) == 2
    assert "already exists" in capsys.readouterr().err
    assert page.read_text() == "mine"
    assert main(["report", GUIDE, "-o", str(page), "--force", "--title", "Run 7"]) == 0
    assert "<h1>Run 7</h1>" in page.read_text(encoding="utf-8")
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]


def test_files_of_the_checkpoint_are_not_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(GUIDE, tmp_path / "c")
    for name in ("checkpoint", "ckpt-5.index", "ckpt-5.data-00000-of-00001"):
        path = tmp_path / "c" / name
        before = path.read_bytes()
        assert main(["report", str(tmp_path / "c"), "-o", str(path), "--force"]) == 2
        assert path.read_bytes() == before
    assert "a file of the checkpoint itself" in capsys.readouterr().err


def test_page_goes_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", GUIDE]) == 0
    text = capsys.readouterr().out
    assert text.startswith("<!DOCTYPE html>") and text.endswith("</html>\n")
    assert main(["report", GUIDE, "-o", "-"]) == 0
    assert capsys.readouterr().out == text


def test_facts_are_those_of_show_and_ls(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, GUIDE)
    assert found["complete"] and found["step"] == 50
    assert main(["show", GUIDE, "--stats", "--json"]) == 0
    shown = {each["key"]: each for each in json.loads(capsys.readouterr().out)["tensors"]}
    tensors = found["tensors"]
    assert isinstance(tensors, list) and len(tensors) == len(shown) == 15
    for each in tensors:
        assert each["statistics"] == shown[each["key"]]["stats"], each["key"]


def test_selection_and_the_index_alone(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    found = document(capsys, GUIDE, "--kind", "weight", "--no-values")
    tensors = found["tensors"]
    assert isinstance(tensors, list)
    assert {each["kind"] for each in tensors} == {"weight"}
    assert not found["values"] and found["step"] is None
    assert all(each["statistics"] is None for each in tensors)
    page = tmp_path / "p.html"
    assert main(["report", GUIDE, "--no-values", "-o", str(page)]) == 0
    assert "The data shards were not read" in page.read_text(encoding="utf-8")
    assert main(["report", GUIDE, "-i", "nothing", "-o", str(tmp_path / "q.html")]) == 2
    assert not (tmp_path / "q.html").exists()


def test_damage_is_told_on_top(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = {name: np.arange(8.0) for name in "abc"}
    ckpttool.save_checkpoint(str(tmp_path / "m"), values)
    shard = tmp_path / "m.data-00000-of-00001"
    data = bytearray(shard.read_bytes())
    data[70] ^= 1
    shard.write_bytes(data)
    page = tmp_path / "report.html"
    assert main(["report", str(tmp_path / "m"), "-o", str(page)]) == 1
    warned = capsys.readouterr().err
    assert "warning:" in warned and "key 'b'" in warned and "crc32c" in warned
    text = page.read_text(encoding="utf-8")
    assert 0 < text.index('class="trouble"') < text.index('class="cards"')
    assert "1 problem: this checkpoint is damaged" in text
    found = document(capsys, str(tmp_path / "m"), code=1)
    tensors = found["tensors"]
    assert isinstance(tensors, list)
    assert [each["error"] is None for each in tensors] == [True, False, True]


def test_missing_shard_and_bad_index(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ckpttool.save_checkpoint(str(tmp_path / "m"), {"w": np.arange(3.0), "v": np.arange(2)})
    (tmp_path / "m.data-00000-of-00001").unlink()
    found = document(capsys, str(tmp_path / "m"), code=1)
    problems = found["problems"]
    assert isinstance(problems, list) and len(problems) == 1 and not found["complete"]
    assert "the data shard is missing" in problems[0]
    (tmp_path / "m.index").write_bytes(b"x" * 100)
    assert main(["report", str(tmp_path / "m"), "-o", str(tmp_path / "p.html")]) == 2
    assert not (tmp_path / "p.html").exists()


def test_many_problems_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ckpttool.save_checkpoint(
        str(tmp_path / "m"), {f"esc\x1b{at:02}": np.arange(2) for at in range(30)}
    )
    shard = tmp_path / "m.data-00000-of-00001"
    shard.write_bytes(bytes(shard.stat().st_size))
    assert main(["report", str(tmp_path / "m"), "-o", str(tmp_path / "p.html")]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 21 and "10 more problems" in lines[-1]
    assert r"key 'esc\x1b00'" in lines[0]
    text = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert "30 problems: " in text and r"key &#x27;esc\x1b19&#x27;" in text
    assert "<li>10 more</li>" in text


def test_nan_and_inf_are_counted(tmp_path: Path) -> None:
    weights = np.array([1, np.nan, np.inf, -np.inf], np.float32)
    ckpttool.save_checkpoint(str(tmp_path / "m"), {"w": weights, "v": np.ones(2)})
    made = ckpttool.report(str(tmp_path / "m"))
    assert made.complete and (made.facts.nan, made.facts.inf, made.facts.not_finite) == (1, 2, 1)
    assert "<b>3</b><span>values NaN or Inf, in 1 tensor</span>" in made.html


@pytest.mark.parametrize(
    "address",
    [
        "v1/tf2.21/single/model.ckpt-7",
        "v2/tf2.21/keras3_adam",
        "v2/tf2.21/dtypes/matrix",
        "saved_model/tf2.21/tf_keras/model",
    ],
)
def test_every_format_has_a_page(address: str) -> None:
    made = ckpttool.report(f"{FIXTURES}/{address}")
    assert made.complete and made.to_dict()["tensors"]
    assert made.html.count("<svg ") > 2


def test_arguments_that_contradict(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", GUIDE, "--force"]) == 2
    assert "--force needs -o FILE" in capsys.readouterr().err
