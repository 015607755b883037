"""Which weight an average is the average of."""

from __future__ import annotations

import pytest

from ckpttool import open_checkpoint
from ckpttool.bundle.entry import BundleEntry
from ckpttool.checkpoint.kinds.averages import Average, find_averages
from ckpttool.checkpoint.kinds.names import kinds_from_names
from ckpttool.checkpoint.kinds.objects import kinds_from_graph
from ckpttool.objects.graph import ObjectGraph
from ckpttool.objects.keys import object_path
from ckpttool.tensor.dtypes import dtype_of_name
from tests.metagraph.graph_files import load
from tests.support.fixtures import bundle

EMA = "ExponentialMovingAverage"


def of_names(*names: str, **shapes: tuple[int, ...]) -> list[Average]:
    dtype = dtype_of_name("float32")
    entries = {name: BundleEntry(dtype, (3, 2)) for name in names}
    entries |= {name: BundleEntry(dtype, shape) for name, shape in shapes.items()}
    return list(find_averages(entries, kinds_from_names(entries), None))


def of_graph(name: str) -> dict[str | None, tuple[str | None, bool]]:
    made = load(name)
    graph = ObjectGraph.from_bytes(made.graph)
    found = find_averages(made.entries, kinds_from_graph(made.entries, graph), graph)
    return {object_path(key): (weight and object_path(weight), own) for key, weight, own in found}


@pytest.mark.parametrize(
    ("average", "own"),
    [
        (f"d/k/{EMA}", False),
        (f"train/d/k/{EMA}_1", False),
        ("d/k/ema", False),
        ("MovingAverage/d/k/average", True),
        ("Adam/average/d/k", True),
        ("adam_w_1/d_k_average", True),
    ],
)
def test_averages_by_name(average: str, own: bool) -> None:
    assert of_names("d/k", average) == [Average(average, "d/k", own)]
    assert of_names("d/other", average) == []


def test_two_variables_of_one_flat_name() -> None:
    assert of_names("a/b_c", "a_b/c", "adam/a_b_c_average") == []


def test_a_longer_name_is_looked_for_first() -> None:
    assert of_names("a/w", "w", f"a/w/{EMA}") == [Average(f"a/w/{EMA}", "a/w", False)]


def test_lists_of_optimizers() -> None:
    name = "v2/tf2.21/tf_keras_new_adam_ema/ckpt-1"
    with open_checkpoint(bundle(name).prefix) as ckpt:
        found = {
            ckpt.object_path(a.key): a.weight and ckpt.object_path(a.weight) for a in ckpt.averages
        }
    layers = ("0/kernel", "0/bias", "1/kernel", "1/bias")
    assert found == {
        f"optimizer/_variables/{at}": f"model/layer_with_weights-{layer}"
        for at, layer in enumerate(layers, start=1)
    }


def test_lists_side_by_side() -> None:
    found = of_graph("keras3_average_loss_scale")
    inner = "optimizer/inner_optimizer"
    assert found == {
        f"{inner}/_variables/{at + 2}": (f"optimizer/_trainable_variables/{at}", True)
        for at in range(6)
    }


def test_names_in_the_program() -> None:
    assert of_graph("moving_average") == {"net/averages/0": ("net/w", False)}


def test_no_averages() -> None:
    assert of_graph("keras3_adam_amsgrad") == {}
