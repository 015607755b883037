"""Bringing checkpoints of old forms up to date: what is planned, and what is kept of a folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ckpttool import open_checkpoint
from ckpttool.errors import (
    CorruptError,
    SelectionError,
    SurgeryError,
)
from ckpttool.surgery.convert import (
    TargetForm,
    changes_nothing,
    conversion_options,
    is_current,
    plan_conversion,
)
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.rules import RenameRule, parse_move, parse_substitution
from ckpttool.surgery.writing.prepare import WriteOptions, prepare
from ckpttool.surgery.writing.recoding.spread import Recoding
from tests.legacy.handmade import legacy_fixture
from tests.support import conversions
from tests.support.conversions import SINGLE, everything, old_strings, write_v1
from tests.support.fixtures import BundleFixture, bundle
from tests.support.handmade import Bundle
from tests.support.refusals import refused
from tests.support.surgery import spoil
from tests.support.sweeps import each_bundle

OBJECTS = "v2/tf2.21/guide_legacy_adam/tf_ckpts/ckpt-5"
MODULE = "v2/tf2.21/legacy_adam_module/model-1"
NAMES = "v2/tf2.21/saver_v2/model.ckpt-3"


@each_bundle
def test_what_tensorflow_wrote_is_current(fixture: BundleFixture) -> None:
    with open_checkpoint(fixture.prefix) as ckpt:
        assert is_current(ckpt)
        plan = plan_conversion(ckpt, "v2")
        how = conversion_options(plan, "v2", Recoding(), WriteOptions())
        assert how == WriteOptions()
        assert changes_nothing(plan, how)


def test_what_is_not_current(tmp_path: Path) -> None:
    conversions.big_endian(tmp_path / "big", [(2,)])
    old_strings(tmp_path / "old")
    source = write_v1(tmp_path / "v1", {"w": np.zeros(2)})
    for path in (tmp_path / "big", tmp_path / "old", source):
        with open_checkpoint(path) as ckpt:
            assert not is_current(ckpt)
            plan = plan_conversion(ckpt, "v2")
            how = conversion_options(plan, "v2", Recoding(), WriteOptions(force=True))
            assert how == WriteOptions(force=True, generation="V2", recoding=Recoding())
            assert not changes_nothing(plan, how)


def test_strings_that_cannot_be_told(tmp_path: Path) -> None:
    Bundle().add_strings(b"s", [2], [b"one", b"two"]).write(tmp_path / "m")
    spoil(tmp_path / "m.data-00000-of-00001", 8)
    with open_checkpoint(tmp_path / "m") as ckpt, refused(CorruptError, "") as caught:
        is_current(ckpt)
    assert caught.value.key == "s"


@pytest.mark.parametrize(
    ("source", "to", "recoding", "nothing"),
    [
        (NAMES, "v2", Recoding(), True),
        (NAMES, "v2", Recoding(shards=1), False),
        (NAMES, "v2", Recoding(join_slices=True), False),
        (NAMES, "v1", Recoding(), False),
        (SINGLE, "v2", Recoding(), False),
        (SINGLE, "v1", Recoding(), True),
        (SINGLE, "v1", Recoding(shards=2), False),
    ],
)
def test_what_changes_nothing(
    source: str, to: TargetForm, recoding: Recoding, nothing: bool
) -> None:
    address = legacy_fixture(source).address if source == SINGLE else bundle(source).prefix
    with open_checkpoint(address) as ckpt:
        plan = plan_conversion(ckpt, to)
        how = conversion_options(plan, to, recoding, WriteOptions())
        assert changes_nothing(plan, how) is nothing
        assert how.generation in (None, to.upper())


@pytest.mark.parametrize("to", ["v1", "name-based"])
def test_objects_become_names(to: TargetForm, tmp_path: Path) -> None:
    with open_checkpoint(bundle(MODULE).prefix) as ckpt:
        plan = plan_conversion(ckpt, to)
        assert plan.graph is None
        prepare(
            plan, str(tmp_path / "q"), conversion_options(plan, to, Recoding(), WriteOptions())
        ).write()
        bias = ckpt["bias"]
    with open_checkpoint(tmp_path / "q") as ckpt:
        assert (ckpt.style, ckpt.generation) == ("name", "V1" if to == "v1" else "V2")
        assert sum(np.array_equal(ckpt[key], bias) for key in ckpt) == 1


def test_names_are_no_objects() -> None:
    with open_checkpoint(bundle(NAMES).prefix) as ckpt, refused(SurgeryError, "already name-based"):
        plan_conversion(ckpt, "name-based")


@pytest.mark.parametrize(
    ("to", "rules", "expected"),
    [
        ("v2", [parse_move("a=x"), parse_substitution("^b", "y")], {"x", "y/c"}),
        ("v1", [parse_move("a=x"), parse_substitution("^b", "y")], {"x", "y/c"}),
        ("v1", [], {"a", "b/c"}),
    ],
)
def test_other_names(
    to: TargetForm, rules: list[RenameRule], expected: set[str], tmp_path: Path
) -> None:
    source = write_v1(tmp_path / "v1", {"a": np.zeros(2), "b/c": np.ones(2)})
    with open_checkpoint(source) as ckpt:
        plan = plan_conversion(ckpt, to, rules=rules)
        assert {tensor.key for tensor in plan.tensors} == expected
        with refused(SelectionError, "'no=x' matches nothing"):
            plan_conversion(ckpt, to, rules=[parse_move("no=x")])


def test_a_reference_is_followed(tmp_path: Path) -> None:
    with open_checkpoint(bundle(MODULE).prefix) as ckpt:
        names = plan_conversion(ckpt, "v1")
        how = conversion_options(names, "v1", Recoding(), WriteOptions())
        prepare(names, str(tmp_path / "v1"), how).write()
        with open_checkpoint(tmp_path / "v1") as source:
            plan = plan_conversion(source, "v2", like=ckpt)
            how = conversion_options(plan, "v2", Recoding(), WriteOptions())
            prepare(plan, str(tmp_path / "v2"), how).write()
        with open_checkpoint(tmp_path / "v2") as made:
            assert made.style == "object"
            for key in ("bias", "same", "blocks/0/frozen", "opt/iter"):
                assert np.array_equal(made[key], ckpt[key])


def test_a_bundle_that_is_current_keeps_its_shards(tmp_path: Path) -> None:
    prefix = bundle(OBJECTS).prefix
    with open_checkpoint(prefix) as ckpt:
        plan = plan_conversion(ckpt, "name-based")
        how = conversion_options(plan, "name-based", Recoding(), WriteOptions())
        assert how == WriteOptions()
        receipt = prepare(plan, str(tmp_path / "q"), WriteOptions("copy")).write()
    assert {shard.how for shard in receipt.shards} == {"copy"}
    assert set(everything(tmp_path / "q")) == {tensor.key for tensor in plan.tensors}


def test_plans_of_v1(tmp_path: Path) -> None:
    arrays = {"w": np.zeros((3, 4), np.float32), "s": np.array([b"text"], object)}
    source = write_v1(tmp_path / "v1", arrays, slices={"w": conversions.ROWS})
    with open_checkpoint(source) as ckpt:
        plan = Plan.of(ckpt)
        assert [(each.key, each.bytes, each.parts) for each in plan.tensors] == [
            ("s", None, ()),
            ("w", 48, ()),
        ]
        assert plan.graph is None and not plan.changes and not plan.keys_changed
        with pytest.raises(TypeError, match="'s' is not in a bundle"):
            _ = plan.tensors[0].bundle_entry
