"""What is said of edges that no key shows."""

from __future__ import annotations

import pytest

from ckpttool import open_checkpoint
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.renaming import rename
from ckpttool.surgery.rules import parse_move
from tests.support.fixtures import bundle

SHARED = "v2/tf2.21/references/ckpt-1"
GUIDE = "v2/tf2.21/guide_legacy_adam/tf_ckpts/ckpt-5"
ALONE = "renamed in the object graph alone, no key is spelled so: "
MADE = "there was no object of this name, so it was made: "


@pytest.mark.parametrize(
    ("name", "rules", "notes"),
    [
        (SHARED, ["a/other=a/peer"], [ALONE + "'a/other' to 'a/peer'"]),
        (SHARED, ["a=x"], [ALONE + "'a' to 'x'"]),
        (SHARED, ["z=y"], []),
        (SHARED, ["again=q"], []),
        (SHARED, ["z=y", "deep=more"], [ALONE + "'deep' to 'more'"]),
        (SHARED, ["b=new/b"], [ALONE + "'b' to 'new/b'", MADE + "'new'"]),
        (GUIDE, ["net/l1=nte/l1"], [MADE + "'nte'"]),
        (GUIDE, ["net=model"], []),
        (GUIDE, ["net=net"], []),
    ],
)
def test_notes(name: str, rules: list[str], notes: list[str]) -> None:
    with open_checkpoint(bundle(name).prefix) as ckpt:
        plan = rename(Plan.of(ckpt), [parse_move(rule) for rule in rules])
        assert list(plan.notes) == notes
