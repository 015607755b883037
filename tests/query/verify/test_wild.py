"""What is found in real artefacts of others: nothing but what is true of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ckpttool.errors import CkptError
from ckpttool.query.folder import list_folder
from ckpttool.query.verify.addresses import verify
from tests.support.fixtures import FIXTURES

WILD = Path(FIXTURES).parent.parent / "shared" / "wild"
# Cut to their indexes for want of room, or without files that the original lacks as well.
LACKS_SHARDS = ("idx_", "t5_index", "mlnet_sentiment_index", "text_hub_segmenter_graph")
LACKS_ASSETS = (
    "sb_sharded_v1_no_assets",
    "serving_half_plus_two_cpu_with_saved_model_config",
)
WARNINGS = {"state-gone", "state-moved", "same-name", "orphan"}

pytestmark = pytest.mark.skipif(not WILD.is_dir(), reason="the artefacts of others are not here")


def expected(name: str) -> set[str]:
    if name.startswith(LACKS_SHARDS):
        return {"shard-missing"}
    if name in LACKS_ASSETS:
        return {"asset-unread"}
    return {"no-checkpoint"} if name in ("deepspeech_ckpt", "scisharp_metas") else set()


@pytest.mark.parametrize(
    "name", sorted(path.name for path in WILD.iterdir() if path.is_dir()) if WILD.is_dir() else []
)
def test_nothing_is_found_that_is_not_so(name: str) -> None:
    for folder, _, _ in os.walk(WILD / name):
        list_folder(folder)
        try:
            reports = verify(folder)
        except CkptError as error:
            assert "\n" not in str(error)
            continue
        codes = {
            each.code
            for report in reports
            for each in report.findings
            if each.severity != "warning" or each.code not in WARNINGS
        }
        assert codes <= expected(name), [each.findings for each in reports]
