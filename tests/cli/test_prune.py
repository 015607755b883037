"""`ckpt prune` as its users run it; where it writes to is told in test_writing.py."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import ckpttool
from ckpttool.cli.main import main
from ckpttool.coding.checksum import crc32c, mask
from tests.support import encoder
from tests.support.command import ckpt
from tests.support.fixtures import bundle
from tests.support.handmade import Bundle
from tests.support.schemas import load_schema, validate
from tests.support.surgery import GUIDE, make, refuse, renaming, run, shards, values

VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
NEW = ("-o", "new")
SLOTS = {
    f"net/l1/{name}/.OPTIMIZER_SLOT/optimizer/{slot}{VALUE}"
    for name in ("bias", "kernel")
    for slot in "mv"
}
HYPER = {
    f"optimizer/{name}{VALUE}" for name in ("beta_1", "beta_2", "decay", "iter", "learning_rate")
}
WEIGHTS = {f"net/l1/{name}{VALUE}" for name in ("bias", "kernel")}
COUNTER = f"save_counter{VALUE}"
STEP = f"step{VALUE}"
ITERATOR = "iterator/.ATTRIBUTES/ITERATOR_STATE"
ALL = SLOTS | HYPER | WEIGHTS | {COUNTER, STEP, ITERATOR}
TRAINED = (
    "v2/tf2.21/keras3_adam/ckpt-1",
    "v2/tf2.21/keras3_compiled/ckpt-1",
    "v2/tf2.21/keras3_sgd_momentum/ckpt-1",
    "v2/tf2.21/legacy_adam_amsgrad/ckpt-1",
    "v2/tf2.21/legacy_rmsprop/ckpt-1",
    "v2/tf2.21/legacy_sgd/ckpt-1",
    "v2/tf2.21/save_weights/weights",
    "v2/tf2.21/tf_keras_compiled/ckpt-1",
    "v2/tf2.21/tf_keras_new_adam_ema/ckpt-1",
    "v2/tf1.15/v1_optimizer_objects/model-1",
    "v2/tf0.12/saver/model.ckpt-3",
)
ADAM = {f"dense/{name}/{slot}" for name in ("bias", "kernel") for slot in ("Adam", "Adam_1")}
POWERS = {"beta1_power", "beta2_power"}


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Return a folder with a run of training and a checkpoint of a Saver in it."""
    return make(tmp_path)


def dropped(folder: Path, *words: str) -> set[str]:
    """Return the tensors that a dry run says are dropped."""
    found = renaming(run(folder, "prune", *words, "-o", "planned", "-n"))
    assert set(found.values()) <= {None}
    return set(found)


def document(folder: Path, *words: str) -> dict[str, Any]:
    """Run a command with --json, hold the output to its schema and return it."""
    done = run(folder, "prune", "--json", *words)
    assert done.out.isascii()
    found: dict[str, Any] = json.loads(done.out)
    validate(found, "ckpt.prune/1")
    return found


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(load_schema("ckpt.prune/1"))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--slots"], SLOTS),
        (["--optimizer"], SLOTS | HYPER),
        (["--optimizer", "--slots"], SLOTS | HYPER),
        (["--weights-only"], ALL - WEIGHTS - {COUNTER}),
        (["--weights-only", "--keep", "step"], ALL - WEIGHTS - {COUNTER, STEP}),
        (["--weights-only", "--drop", "=save_counter"], ALL - WEIGHTS),
        (["--drop", "iterator"], {ITERATOR}),
        (["--drop", ITERATOR], {ITERATOR}),
        (["--drop", "step", "--drop", "**/bias"], None),
        (["--drop", "re:^(step|iterator)", "--slots"], {STEP, ITERATOR} | SLOTS),
        (
            ["--drop", "optimizer/{iter,decay}"],
            {f"optimizer/{n}{VALUE}" for n in ("iter", "decay")},
        ),
        (["--keep", "net"], ALL - WEIGHTS - SLOTS - {COUNTER}),
        (["--keep", "net", "--keep", "step"], ALL - WEIGHTS - SLOTS - {COUNTER, STEP}),
        (["--slots", "--keep", "net/l1/bias/**"], {key for key in SLOTS if "kernel" in key}),
        (["--keep", "net/l1/kernel", "--drop", "net"], None),
        (["--kind", "slot"], SLOTS),
        (["--kind", "slot,iterator", "--kind", "step"], SLOTS | {ITERATOR, COUNTER, STEP}),
        (["--kind", "slot", "--drop", "**/bias/**"], {key for key in SLOTS if "bias" in key}),
        (["--kind", "iterator", "--slots"], SLOTS | {ITERATOR}),
        (
            ["--kind", "slot", "--keep", "net/l1/bias/**"],
            {key for key in SLOTS if "bias" not in key},
        ),
        (["--kind", "weight", "--drop", "net/l1/bias"], {key for key in ALL if "l1/bias" in key}),
    ],
)
def test_what_goes(words: list[str], expected: set[str] | None, here: Path) -> None:
    before = values(here / "ckpts" / "ckpt-10")
    assert set(before) == ALL
    found = dropped(here, "ckpts", *words)
    if expected is not None:
        assert found == expected
    assert found
    run(here, "prune", "ckpts", *words, *NEW)
    assert values(here / "new") == {key: before[key] for key in ALL - found}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--slots"], ADAM | {"dense/kernel/Momentum"}),
        (["--optimizer"], ADAM | {"dense/kernel/Momentum"} | POWERS),
        (
            ["--weights-only"],
            ADAM
            | POWERS
            | {"dense/kernel/Momentum", "dense/kernel/ExponentialMovingAverage", "global_step"},
        ),
        (["--drop", "dense/*/Adam*"], ADAM),
        (["--drop", "embedding"], {"embedding"}),
        (["--keep", "embedding"], None),
        (["--drop", "dense", "--keep", "dense/kernel"], None),
    ],
)
def test_names_tell_where_there_are_no_objects(
    words: list[str], expected: set[str] | None, here: Path
) -> None:
    before = values(here / "model.ckpt-3")
    found = dropped(here, "model.ckpt-3", *words)
    if expected is not None:
        assert found == expected
    run(here, "prune", "model.ckpt-3", *words, *NEW)
    assert values(here / "new") == {key: before[key] for key in before.keys() - found}


def test_slots_go_with_their_variable(here: Path) -> None:
    found = dropped(here, "ckpts", "--drop", "=net/l1/bias")
    assert found == {f"net/l1/bias{VALUE}"} | {key for key in SLOTS if "bias" in key}


@pytest.mark.parametrize(
    ("words", "gone", "left"),
    [
        (["--optimizer"], ["optimizer"], ["net", "iterator", "save_counter"]),
        (["--weights-only"], ["optimizer", "iterator", "step"], ["net/l1/kernel", "save_counter"]),
        (["--drop", "net"], ["net"], ["optimizer/iter"]),
        (["--slots"], [], ["net/l1/kernel", "optimizer/iter"]),
    ],
)
def test_the_graph_follows(words: list[str], gone: list[str], left: list[str], here: Path) -> None:
    run(here, "prune", "ckpts", *words, *NEW)
    with ckpttool.open_checkpoint(here / "new") as new:
        graph = new.object_graph
        assert graph is not None
        assert [path for path in gone if graph.node_at(path) is not None] == []
        assert [path for path in left if graph.node_at(path) is None] == []
        held = {a.checkpoint_key for node in graph.nodes for a in node.attributes}
        keys = {key for key in new if "OBJECT_GRAPH" not in key}
        # The key of an iterator's attribute lacks the last part of its tensor's.
        assert {key.removesuffix("_STATE") for key in keys} == held
        slots = [slot for node in graph.nodes for slot in node.slots]
        assert len(slots) == sum(".OPTIMIZER_SLOT" in key for key in new)
    assert ckpt("ls", "new", "--tree", folder=str(here)).code == 0


@pytest.mark.parametrize("name", TRAINED)
def test_optimizers_of_every_kind(name: str, tmp_path: Path) -> None:
    fixture = bundle(name)
    found = document(tmp_path, fixture.prefix, "--optimizer", *NEW)
    kinds = {row["kind"] for row in found["changes"]}
    averaged = "tf_keras_new_adam_ema" in name
    assert "optimizer" in kinds <= {"slot", "optimizer"} | ({"ema"} if averaged else set())
    assert any("averages go with the optimizer" in note for note in found["notes"]) == averaged
    left = ckpt("ls", "new", "--format", "names", folder=str(tmp_path)).out.splitlines()
    assert len(left) == found["written"]["tensors"]
    assert len(fixture.tensors) == len(left) + len(found["changes"])


def test_bytes_by_kind_are_told(here: Path) -> None:
    done = run(here, "prune", "ckpts", "--optimizer", *NEW)
    assert "of 14 tensors, 9 dropped: 104 B (slot 80 B, optimizer 24 B); wrote new" in done.err
    assert done.err.rstrip().endswith(" dead")
    done = run(here, "prune", "ckpts", "--optimizer", "-o", "other", "--compact")
    assert " dead" not in done.err
    assert shards(here, "other")[0].stat().st_size < shards(here, "ckpts/ckpt-10")[0].stat().st_size


def test_dead_bytes_can_be_removed_later(here: Path) -> None:
    run(here, "prune", "ckpts", "--weights-only", "--in-place")
    before = values(here / "ckpts" / "ckpt-10")
    size = sum(path.stat().st_size for path in shards(here, "ckpts/ckpt-10"))
    done = run(here, "prune", "ckpts", "--slots", "--in-place", "--compact")
    assert "of 3 tensors, none changes" in done.err
    assert values(here / "ckpts" / "ckpt-10") == before
    assert sum(path.stat().st_size for path in shards(here, "ckpts/ckpt-10")) < size / 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--drop", "nope"], "pattern 'nope' selects nothing"),
        (["--drop", "net/l1/kernle"], "nearest: 'net/l1/kernel'"),
        (["--slots", "--keep", "nope"], "pattern 'nope' selects nothing"),
        (["--drop", "re:("], "re:("),
        (["--drop", "**"], "nothing would be left"),
        (["--drop", "@nowhere"], "nowhere"),
    ],
)
def test_what_cannot_be_done(words: list[str], message: str, here: Path) -> None:
    refuse(here, "prune", "ckpts", *words, *NEW, message=message)
    refuse(here, "prune", "ckpts", *words, "--in-place", "-n", message=message)


def test_something_has_to_say_what_goes(here: Path) -> None:
    refuse(
        here,
        "prune",
        "ckpts",
        *NEW,
        message="nothing to drop: give --drop, --keep, --kind, --slots, --optimizer, "
        "--weights-only, or --compact alone",
        lines=2,
    )


def test_compacting_needs_nothing_to_drop(here: Path) -> None:
    run(here, "prune", "ckpts", "--slots", "-o", "holed")
    before = values(here / "holed")
    found = document(here, "holed", "--compact", *NEW)
    assert found["changes"] == [] and found["written"]["bytes_dead"] == 0
    assert values(here / "new") == before
    old, new = (
        sum(path.stat().st_size for path in shards(here, name)) for name in ("holed", "new")
    )
    assert new < old


def test_the_object_graph_is_no_kind_to_drop(here: Path) -> None:
    refuse(here, "prune", "ckpts", "--kind", "graph", *NEW, message="--to name-based")
    refuse(here, "prune", "ckpts", "--kind", "slto", *NEW, message="nearest: 'slot'")


def test_nothing_of_a_kind_is_no_error(here: Path) -> None:
    run(here, "prune", "model.ckpt-3", "--slots", "--in-place")
    before = values(here / "model.ckpt-3")
    done = run(here, "prune", "model.ckpt-3", "--slots", *NEW)
    assert done.out == "key\taction\tnew_key\tkind\tbytes\n"
    assert "of 7 tensors, none changes; wrote new" in done.err
    assert values(here / "new") == before


def test_patterns_from_a_file(here: Path) -> None:
    (here / "patterns").write_text("# of no use\nstep\niterator/\n", encoding="utf-8")
    assert dropped(here, "ckpts", "--drop", "@patterns") == {STEP, ITERATOR}


@pytest.mark.parametrize("name", ["v2/tf2.21/odd_keys/odd", "v2/tf2.21/keys_not_utf8/bytes"])
def test_odd_names_typed_as_they_are_printed(name: str, tmp_path: Path) -> None:
    prefix = bundle(name).prefix
    printed = ckpt("ls", prefix, "--format", "names").out.splitlines()
    wanted = [word for each in printed[1:] for word in ("--drop", f"={each}")]
    run(tmp_path, "prune", prefix, *wanted, *NEW)
    left = ckpt("ls", "new", "--format", "names", folder=str(tmp_path)).out.splitlines()
    assert left == printed[:1]


def test_partitioned_tensors_go_whole(tmp_path: Path) -> None:
    prefix = bundle("v2/tf2.21/partitioned_sharded/model").prefix
    before = values(Path(prefix))
    found = document(tmp_path, prefix, "--drop", "w", *NEW, "--compact")
    assert [(row["key"], row["bytes"]) for row in found["changes"]] == [("w", 60)]
    after = values(tmp_path / "new")
    assert after == {key: value for key, value in before.items() if key != "w"}
    dump = ckpt("ls", "new", "--long", folder=str(tmp_path)).out
    assert "@" in dump and "\nw\t" not in dump


def test_json(here: Path) -> None:
    found = document(here, "ckpts", "--optimizer", *NEW)
    assert found["source"]["path"] == "ckpts" and found["source"]["prefix"] == "ckpts/ckpt-10"
    assert found["by_kind"] == {
        "slot": {"tensors": 4, "bytes": 80},
        "optimizer": {"tensors": 5, "bytes": 24},
    }
    assert {row["key"] for row in found["changes"]} == SLOTS | HYPER
    assert found["kept"] == 5 and found["written"]["tensors"] == 6
    dead = found["written"]["bytes_dead"]
    total = sum(shard["bytes"] for shard in found["written"]["shards"])
    with ckpttool.open_checkpoint(here / "new") as new:
        assert dead == total - sum(entry.size for entry in new.bundle.entries.values()) > 104
    tried = document(here, "ckpts", "--optimizer", "-o", "other", "-n")
    assert tried == {**found, "destination": "other", "dry_run": True, "written": None}


def test_savers_of_a_program_are_told(tmp_path: Path) -> None:
    prefix = bundle("v2/tf2.21/registered_saver/ckpt-1").prefix
    keys = ckpt("ls", prefix, "--format", "names").out.splitlines()
    own = next(key for key in keys if ".ATTRIBUTES" not in key and "OBJECT_GRAPH" not in key)
    done = run(tmp_path, "prune", prefix, "--drop", f"={own}", *NEW)
    assert "a saver of the program's own" in done.err.splitlines()[0]


def test_a_folder_is_published_as_weights(here: Path) -> None:
    shutil.rmtree(here / "ckpts")
    shutil.copytree(GUIDE, here / "run")
    run(here, "prune", "run", "--weights-only", "--compact", "-o", "out/ckpt-10", "--update-state")
    assert sorted(path.name for path in (here / "out").iterdir()) == [
        "checkpoint",
        "ckpt-10.data-00000-of-00001",
        "ckpt-10.index",
    ]
    assert ckpttool.latest_checkpoint(str(here / "out")) == str(here / "out" / "ckpt-10")
    assert set(values(here / "out" / "ckpt-10")) == WEIGHTS | {COUNTER}


def test_options_come_from_the_environment(here: Path) -> None:
    environ = {"CKPT_PRUNE_DROP": "step iterator", "CKPT_PRUNE_SLOTS": "1"}
    done = run(here, "prune", "ckpts", *NEW, "-n", environ=environ)
    assert set(renaming(done)) == SLOTS | {STEP, ITERATOR}
    environ |= {"CKPT_PRUNE_KEEP": "net"}
    done = run(here, "prune", "ckpts", *NEW, "-n", environ=environ)
    assert set(renaming(done)) == {STEP, ITERATOR}


def test_the_help_has_examples() -> None:
    done = ckpt("prune", "--help")
    assert done.code == 0 and "ckpt prune ckpts --optimizer -o out/ckpt-1" in done.out


def test_compacting_does_not_multiply_bytes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Bundle().add(b"a", 1, (64,), bytes(256)).add(b"z", 1, (2,), bytes(8))
    made.records[b"twin"] = made.records[b"a"]
    prefix = made.write(tmp_path / "shared")
    assert main(["prune", prefix, "--drop", "z", "--compact", "-o", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out.data-00000-of-00001").stat().st_size == 256
    crc = mask(crc32c(bytes(248)))
    made.records[b"b"] = encoder.entry(1, (62,), offset=4, size=248, crc=crc)
    prefix = made.write(tmp_path / "apart")
    capsys.readouterr()
    assert main(["prune", prefix, "--drop", "z", "--compact", "-o", str(tmp_path / "no")]) == 2
    assert "key 'b': it overlaps another tensor in part" in capsys.readouterr().err
    assert not list(tmp_path.glob("no.*"))
    assert main(["prune", prefix, "--drop", "z", "-o", str(tmp_path / "no")]) == 0


def test_objects_in_a_chain_of_thousands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def edge(node: int, name: bytes) -> bytes:
        return encoder.bytes_field(1, encoder.number_field(1, node) + encoder.bytes_field(2, name))

    def variable(key: bytes) -> bytes:
        value = encoder.bytes_field(1, b"VARIABLE_VALUE") + encoder.bytes_field(3, key)
        return encoder.bytes_field(2, value)

    count, value = 5000, b"/.ATTRIBUTES/VARIABLE_VALUE"
    path = b"/".join([b"next"] * count)
    keys = path + value, path + b"/.OPTIMIZER_SLOT/opt/m" + value
    slot = (
        encoder.number_field(1, count)
        + encoder.bytes_field(2, b"m")
        + encoder.number_field(3, count + 2)
    )
    nodes = [edge(at + 1, b"next") for at in range(count)]
    nodes[0] += edge(count + 1, b"opt")
    nodes += [variable(keys[0]), encoder.bytes_field(3, slot), variable(keys[1])]
    graph = b"".join(encoder.bytes_field(1, node) for node in nodes)
    made = Bundle().add_strings(b"_CHECKPOINTABLE_OBJECT_GRAPH", [], [graph])
    for key in keys:
        made.add(key, 1, [2], bytes(8))
    assert main(["prune", made.write(tmp_path / "m"), "--slots", "-n"]) == 0
    assert "of 2 tensors, 1 dropped" in capsys.readouterr().err
