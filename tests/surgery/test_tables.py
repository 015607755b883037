"""The rename tables say what real releases of TensorFlow call their variables.

data/tf_names.json holds what data/make_tf_names.py found: networks of old releases with the names
that the same variables have today, proven by the network computing the same.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ckpttool
from ckpttool import open_checkpoint
from ckpttool.errors import KeyCollisionError, SelectionError
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.renaming import rename
from ckpttool.surgery.rules import MoveRule, TableRule
from ckpttool.surgery.tables import list_tables, load_table

FACTS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "data" / "tf_names.json").read_text(encoding="utf-8")
)
RENAMED = [fact for fact in FACTS if "variables" in fact]
TABLES = ("contrib-layers", "tf1-rnn", "tf1-rnn-cells")
TODAY = {new for fact in RENAMED for _, new, _ in fact["variables"]}


def label(fact: dict[str, Any]) -> str:
    return f"{fact['network']}-{'-'.join(fact['releases'])}"


def renamed(table: TableRule, name: str) -> str:
    new = table.rename(name)
    return name if new is None else new


def moved(name: str, moves: list[list[str]]) -> str:
    rules = [MoveRule(old, new) for old, new in moves]
    return next((new for rule in rules if (new := rule.rename(name)) is not None), name)


def test_there_are_facts_from_every_release() -> None:
    releases = {release for fact in FACTS for release in fact["releases"]}
    assert releases == {"0.12.1", "1.0.1", "1.1.0", "1.4.1"}
    assert {fact["table"] for fact in FACTS} == set(TABLES)
    assert len(RENAMED) > 150


@pytest.mark.sweep(6)
@pytest.mark.parametrize("fact", RENAMED, ids=label)
def test_old_names_become_those_of_today(fact: dict[str, Any]) -> None:
    table = load_table(fact["table"])
    for old, today, _ in fact["variables"]:
        assert moved(renamed(table, old), fact["moves"]) == today


@pytest.mark.sweep(6)
@pytest.mark.parametrize("fact", RENAMED, ids=label)
def test_a_checkpoint_gets_the_names_of_today(fact: dict[str, Any], tmp_path: Path) -> None:
    old = {name: np.zeros(shape, np.float32) for name, _, shape in fact["variables"]}
    ckpttool.save_checkpoint(str(tmp_path / "model"), old)
    with open_checkpoint(tmp_path / "model") as ckpt:
        plan = Plan.of(ckpt)
        if any(renamed(load_table(fact["table"]), name) != name for name in old):
            plan = rename(plan, [load_table(fact["table"])])
        if fact["moves"]:
            plan = rename(plan, [MoveRule(*move) for move in fact["moves"]])
        found = {tensor.key: list(tensor.entry.shape) for tensor in plan.tensors}
    assert found == {today: shape for _, today, shape in fact["variables"]}


@pytest.mark.parametrize("name", TABLES)
def test_names_of_today_stay(name: str) -> None:
    table = load_table(name)
    kept = {today for today in TODAY if table.rename(today) is None}
    # A scope that a program opens itself may have the name of an old default.
    own = {f"model/RNN/basic_lstm_cell/{each}" for each in ("kernel", "bias")}
    assert TODAY - kept == (own if name == "tf1-rnn" else set())


@pytest.mark.parametrize("name", TABLES)
def test_a_second_run_changes_nothing(name: str) -> None:
    table = load_table(name)
    for fact in RENAMED:
        for old, _, _ in fact["variables"]:
            assert table.rename(renamed(table, old)) is None


@pytest.mark.parametrize("name", TABLES)
def test_every_line_is_borne_out_by_a_fact(name: str) -> None:
    table = load_table(name)
    # The one table is the other with lines for scopes; its facts bear those out.
    facts = [fact for fact in FACTS if (fact["table"] == "contrib-layers") == (name == TABLES[0])]
    used = set()
    for fact in facts:
        for old in [*fact.get("collide", ()), *(old for old, _, _ in fact.get("variables", ()))]:
            for at, step in enumerate(table.steps):
                new = step.pattern.sub(step.replacement, old)
                used |= {at} if new != old else set()
                old = new
    assert [step.pattern.pattern for at, step in enumerate(table.steps) if at not in used] == []


def test_one_table_is_the_other_and_scopes() -> None:
    cells, whole = load_table("tf1-rnn-cells").steps, load_table("tf1-rnn").steps
    assert whole[: len(cells)] == cells
    names = {re.sub(r"\W", "", step.replacement.strip(r"\12")) for step in whole[len(cells) :]}
    assert len(whole) == len(cells) + 4 and len(names) == 4


def test_slots_and_averages_follow() -> None:
    old = "RNN/MultiRNNCell/Cell1/LSTMCell/W_F_diag"
    new = "rnn/multi_rnn_cell/cell_1/lstm_cell/w_f_diag"
    for slot in ("Adam", "Adam_1", "Momentum", "ExponentialMovingAverage"):
        assert load_table("tf1-rnn").rename(f"{old}/{slot}") == f"{new}/{slot}"
    table = load_table("contrib-layers")
    assert table.rename("a/weights/RMSProp_1") == "a/kernel/RMSProp_1"


@pytest.mark.parametrize(
    "name",
    [
        "RNN",
        "RNN/kernel",
        "RNN/my_cell/kernel",
        "MyRNN/basic_lstm_cell/kernel",
        "BiRNN/FW/my_cell/kernel",
        "BiRNN/gru_cell/kernel",
        "StackRNN/Layer0/my_cell/W",
        "LSTMCell/W",
        "LSTMCell/W_x",
        "LSTMCell/Bias",
        "MyLSTMCell/W_0",
        "LSTMCell_1/W_0",
        "MultiRNNCell/kernel",
        "Cell0/w",
        "x/Cell0/BasicRNNCell/Matrix",
        "BasicLSTMCell/Linear",
        "BasicLSTMCell/Linear/Matrix2",
        "Linear/Matrix",
        "my_decoder/Linear/Matrix",
        "dense/weights",
        "dense/biases",
        "lstm_cell/weights_1",
        "my_lstm_cell/weights",
        "attention_decoder_2/weights",
        "global_step",
        "",
    ],
)
def test_other_names_stay(name: str) -> None:
    assert load_table("tf1-rnn").rename(name) is None
    assert load_table("tf1-rnn-cells").rename(name) is None


@pytest.mark.parametrize(
    "name", ["weights/a/b", "a/my_weights", "a/weights_1", "weightsx", "a/biases/b/c", "Matrix"]
)
def test_other_names_of_layers_stay(name: str) -> None:
    assert load_table("contrib-layers").rename(name) is None


def test_a_matrix_in_pieces_is_refused(tmp_path: Path) -> None:
    (fact,) = (fact for fact in FACTS if "collide" in fact)
    assert fact["network"] == "lstm_in_pieces"
    tensors = {name: np.zeros(2, np.float32) for name in fact["collide"]}
    ckpttool.save_checkpoint(str(tmp_path / "model"), tensors)
    with open_checkpoint(tmp_path / "model") as ckpt, pytest.raises(KeyCollisionError) as caught:
        rename(Plan.of(ckpt), [load_table(fact["table"])])
    assert "'rnn/lstm_cell/kernel'" in str(caught.value)


def test_tables_say_what_they_are_for() -> None:
    listed = dict(list_tables())
    assert tuple(listed) == TABLES
    for purpose in listed.values():
        assert 20 < len(purpose) < 110 and purpose[0].isupper() and "\t" not in purpose


def test_a_table_that_does_not_exist() -> None:
    with pytest.raises(SelectionError, match="unknown table 'tf1-rn'; nearest: 'tf1-rnn'"):
        load_table("tf1-rn")
    with pytest.raises(SelectionError, match=r"unknown table '\.\./tables'"):
        load_table("../tables")


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_written_as_its_readers_expect(name: str) -> None:
    path = Path(ckpttool.__file__).parent / "surgery" / "rename_tables" / f"{name}.tsv"
    for line in path.read_text(encoding="ascii").splitlines():
        if line and not line.startswith("#"):
            assert line.count("\t") == 1 and line == line.strip()
        else:
            assert len(line) <= 110 and "\t" not in line
