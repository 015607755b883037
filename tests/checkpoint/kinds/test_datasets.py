from __future__ import annotations

from ckpttool.checkpoint.kinds.datasets import kinds_from_datasets
from ckpttool.interchange.entry import ArrayEntry
from ckpttool.tensor.dtypes import dtype_of_name


def test_the_state_of_optimizers_and_of_random_numbers_is_no_weight() -> None:
    def entry(dtype: str, *shape: int) -> ArrayEntry:
        return ArrayEntry(dtype_of_name(dtype), shape, 0, 0, 4)

    entries = {
        "layers/dense/vars/0": entry("float32", 2, 3),
        "layers/optimizer/vars/0": entry("float32", 2),  # a layer of this name
        "layers/dropout/seed_generator/vars/0": entry("uint32", 2),
        "layers/dense/vars/1": entry("float32"),
        "optimizer/vars/0": entry("int64"),
        "optimizer/vars/1": entry("float32"),
        "optimizer/vars/2": entry("float32", 2, 3),
        "optimizer_weights/Adam/m/dense/kernel:0": entry("float32", 2, 3),
        "model_weights/dense/dense/kernel:0": entry("float32", 2, 3),
    }
    assert [*kinds_from_datasets(entries).values()] == [
        *("weight", "weight", "other", "weight"),
        *("step", "optimizer", "slot", "slot", "weight"),
    ]
