"""The same program run with TensorFlow and with us restores the same from either's files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.interop.train_faces import ours, theirs
from tests.interop.train_restores import RULES, Rule


@pytest.mark.filterwarnings("ignore::ckpttool.errors.UnrestoredWarning")
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.restore.__name__)
def test_outcomes_are_the_same(rule: Rule, tf: Any, tmp_path: Path) -> None:
    faces = {"theirs": theirs(tf), "ours": ours()}
    answers = {}
    for writer, writing in faces.items():
        folder = tmp_path / writer
        folder.mkdir()
        rule.save(writing, folder)
        for reader, reading in faces.items():
            answers[f"{reader} reads {writer}"] = rule.restore(reading, folder)
    wanted = answers["theirs reads theirs"]
    for which, answer in answers.items():
        assert answer == wanted, which
