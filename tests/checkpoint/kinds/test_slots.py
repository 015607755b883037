"""Optimizers by the slots that they keep."""

from __future__ import annotations

import pytest

from ckpttool.checkpoint.kinds.slots import (
    FAMILIES,
    OF_TWO_SLOTS,
    families_of_slots,
    family_of_lists,
    slot_groups,
)


def test_names_and_lists_tell_families_apart() -> None:
    names = [name for family in FAMILIES for name in family.names]
    assert len(names) == len(set(names))
    assert {"Adam", "AdaMax", "Adadelta", "Ftrl", "RMSProp"} < OF_TWO_SLOTS
    assert not {"Momentum", "Adagrad"} & OF_TWO_SLOTS


@pytest.mark.parametrize(
    ("slots", "names"),
    [
        ({"m", "v"}, {"Adam", "AdaMax"}),
        ({"m", "v", "vhat"}, {"Adam", "AdaMax"}),
        ({"momentum"}, {"Momentum"}),
        ({"rms"}, {"RMSProp"}),
        ({"rms", "momentum"}, {"RMSProp"}),
        ({"accum", "linear"}, {"Ftrl"}),
        ({"m", "other"}, set()),
    ],
)
def test_slots_of_an_object_graph(slots: set[str], names: set[str]) -> None:
    found = families_of_slots(slots)
    assert len(found) == len(names)
    assert all(family.names & names for family in found)


def test_lists_of_todays_keras() -> None:
    family = family_of_lists({"_momentums", "_velocities", "_variables"})
    assert family is not None and "Adam" in family.names
    assert family_of_lists({"_variables"}) is None


def test_groups_of_names() -> None:
    numbered, spelled = slot_groups(
        ["train/w/Adam", "train/w/Adam_1", "a/b/w/adam_v", "a/b/w/adam_m"]
    )
    assert numbered.members == {0: "train/w/Adam", 1: "train/w/Adam_1"} and numbered.numbered
    assert numbered.variable({"w", "train"}.__contains__) == "w"
    assert spelled.members == {0: "a/b/w/adam_m", 1: "a/b/w/adam_v"} and not spelled.numbered
    assert spelled.variable({"b/w", "w"}.__contains__) == "b/w"
