from __future__ import annotations

import os

import pytest

from ckpttool.bundle.entry import BundleEntry
from ckpttool.bundle.reader import BundleReader
from ckpttool.checkpoint.kinds.names import kinds_from_metagraph, kinds_from_names
from ckpttool.checkpoint.kinds.rules import KINDS
from ckpttool.metagraph.facts import MetaGraph, Variable, VariableSlice, read_metagraphs
from ckpttool.objects.keys import GRAPH_KEY
from ckpttool.tensor.dtypes import dtype_of_name
from tests.support.fixtures import bundle, bundles

K = (3, 2)
# As TensorFlow names variables: name, shape or dtype, kind. A tuple is the shape of a float32.
Rows = list[tuple[str, tuple[int, ...] | str, str]]
DENSE: Rows = [("dense/kernel", K, "weight"), ("dense/bias", (2,), "weight")]
CASES: dict[str, Rows] = {
    "Adam of TensorFlow 1": [
        *DENSE,
        ("beta1_power", (), "optimizer"),
        ("beta2_power", (), "optimizer"),
        ("dense/bias/Adam", (2,), "slot"),
        ("dense/bias/Adam_1", (2,), "slot"),
        ("dense/kernel/Adam", K, "slot"),
        ("dense/kernel/Adam_1", K, "slot"),
        ("global_step", "int64", "step"),
    ],
    "two of them": [
        *DENSE,
        ("beta1_power", (), "optimizer"),
        ("beta1_power_1", (), "optimizer"),
        ("beta2_power_1", (), "optimizer"),
        ("dense/kernel/Adam_2", K, "slot"),
        ("dense/kernel/Adam_3", K, "slot"),
    ],
    "applied in a scope": [
        *DENSE,
        ("train/beta1_power", (), "optimizer"),
        ("train/dense/bias/Adam", (2,), "slot"),
        ("train/dense/kernel/Adam_1", K, "slot"),
        ("train/global_step", "int64", "step"),
    ],
    "optimize_loss": [
        *DENSE,
        ("OptimizeLoss/dense/kernel/Momentum", K, "slot"),
        ("OptimizeLoss/learning_rate", (), "optimizer"),
        ("global_step", "int64", "step"),
    ],
    "other optimizers": [
        *DENSE,
        ("dense/kernel/RMSProp", K, "slot"),
        ("dense/kernel/RMSProp_2", K, "slot"),
        ("dense/kernel/Adadelta_1", K, "slot"),
        ("dense/kernel/Adagrad", K, "slot"),
        ("dense/kernel/AdagradDA_1", K, "slot"),
        ("dense/kernel/AdaMax", K, "slot"),
        ("dense/kernel/AdamW_1", K, "slot"),
        ("dense/kernel/Ftrl_1", K, "slot"),
        ("dense/kernel/LARSOptimizer", K, "slot"),
        ("dense/kernel/PowerSignOptimizer", K, "slot"),
        ("dense/kernel/ProximalAdagrad", K, "slot"),
        # One factor for each dimension.
        ("dense/kernel/Shampoo_1", (3, 3), "slot"),
        ("dense/kernel/Shampoo_2", (2, 2), "slot"),
        ("dense/kernel/Adafactor", (3,), "slot"),
        ("dense/kernel/Adafactor_1", (2,), "slot"),
    ],
    "an optimizer of the user's own": [
        *DENSE,
        ("dense/bias/my_opt", (2,), "slot"),
        ("dense/kernel/my_opt", K, "slot"),
    ],
    "no optimizer: the name occurs elsewhere": [
        *DENSE,
        ("dense/bias/scale", (2,), "weight"),
        ("dense/kernel/scale", K, "weight"),
        ("norm/scale", K, "weight"),
    ],
    "no optimizer: one only, or of another shape": [
        *DENSE,
        ("dense/bias/mask", (3,), "weight"),
        ("dense/kernel/mask", K, "weight"),
        ("dense/kernel/row", (3,), "weight"),
        ("dense/kernel/gain", K, "weight"),
    ],
    "a layer called Adam": [
        ("Adam/kernel", K, "weight"),
        ("Adam/bias", (2,), "weight"),
        ("Adam/scale", (), "weight"),
        ("encoder/Adam", K, "weight"),
        ("Momentum", K, "weight"),
        ("m", K, "weight"),
        ("v", K, "weight"),
        ("attention/m", K, "weight"),
        ("attention/v", K, "weight"),
    ],
    "slots without their variables": [
        ("dense/kernel/Adam", K, "slot"),
        ("dense/kernel/Adam_1", K, "slot"),
        ("dense/kernel/Momentum", K, "weight"),
        ("encoder/Lion", K, "weight"),
        ("encoder/Lion_1", K, "weight"),
    ],
    "BERT": [
        ("bert/pooler/kernel", K, "weight"),
        ("bert/pooler/kernel/adam_m", K, "slot"),
        ("bert/pooler/kernel/adam_v", K, "slot"),
        ("bert/pooler/kernel/lamb_m", K, "slot"),
        ("global_step", "int64", "step"),
    ],
    "Mesh TensorFlow": [
        ("block/q", K, "weight"),
        ("block/q_slot_vr", (3,), "slot"),
        ("block/q_slot_vc", (2,), "slot"),
        ("block/q_slot_m", K, "slot"),
        ("block/lone_slot_v", K, "weight"),
        ("block/q/slot_vc", (2,), "slot"),
        ("block/q/vr", (3,), "slot"),
    ],
    "tf.keras of TensorFlow 1": [
        *DENSE,
        ("training/Adam/beta_1", (), "optimizer"),
        ("training/Adam/decay", (), "optimizer"),
        ("training/Adam/dense/bias/v", (2,), "slot"),
        ("training/Adam/dense/kernel/m", K, "slot"),
        ("training/Adam/iter", "int64", "optimizer"),
        ("training/Adam/learning_rate", (), "optimizer"),
    ],
    "Keras on TensorFlow 1": [
        *DENSE,
        ("Adam/iterations", "int64", "optimizer"),
        ("Adam/lr", (), "optimizer"),
        ("training/Adam/Variable", K, "slot"),
        ("training/Adam/Variable_1", (2,), "slot"),
        ("training/Adam/Variable_17", (1,), "slot"),  # "amsgrad" is off
        ("training/Adam/Variable_18", (7, 7), "weight"),
        ("training/Adam/m_0", K, "slot"),
        ("training_1/RMSprop/Variable_2", (2,), "slot"),
        ("model/training/SGD/moment_1", (2,), "slot"),
        ("training/Dense/Variable", K, "weight"),
        ("Adam/Variable", K, "weight"),
        ("other/Adam/Variable", K, "weight"),
    ],
    "Keras 3": [
        *DENSE,
        ("adam_w/dense_kernel_momentum", K, "slot"),
        ("adam_w/dense_kernel_velocity", K, "slot"),
        ("adam_w/dense_kernel_average", K, "ema"),
        ("adam_w/dense_bias_velocity_hat", (2,), "slot"),
        ("adam/dense_bias_scale", (2,), "weight"),
        ("adam_w/dense_other_momentum", K, "weight"),
        ("adam_w/dense_kernel_norm", (2,), "weight"),
        ("adam_w/iteration", "int64", "optimizer"),
        ("adam_w/learning_rate", (), "optimizer"),
        ("adafactor/dense_kernel_r", (3,), "slot"),
        ("adafactor/dense_bias_c", (), "slot"),
        ("loss_scale_optimizer/adam_1_12/dense_kernel_momentum", K, "slot"),
        ("loss_scale_optimizer/dynamic_scale", (), "optimizer"),
        ("loss_scale_optimizer/step_counter", "int32", "optimizer"),
        ("mine/iteration", "int64", "optimizer"),
        ("mine/learning_rate", (), "optimizer"),
        ("mine/dense_kernel_whatever", K, "slot"),
        ("theirs/dense_kernel_momentum", K, "weight"),
    ],
    "averages of tf_keras": [
        *DENSE,
        ("AdamW/average/dense/kernel", K, "ema"),
        ("Adadelta/accumulated_grad/dense/bias", (2,), "slot"),
        ("Nadam/m/dense/kernel", K, "slot"),
        ("Nadam/Variable", (), "optimizer"),
        ("AdamW/average/dense/other", K, "weight"),
        ("AdamW/mask/dense/kernel", K, "weight"),
    ],
    "an optimizer of tf_keras without a scope": [
        *DENSE,
        ("m/dense/kernel", K, "slot"),
        ("average/dense/kernel", K, "ema"),
        ("v/dense/kernel", K, "weight"),
        ("v/dense/other", K, "weight"),  # so "v" is a layer
        ("iteration", "int64", "optimizer"),
        ("learning_rate", (), "optimizer"),
    ],
    "replay buffers": [
        ("replay_buffer/observation", (100, 3), "other"),
        ("TFUniformReplayBuffer/TFUniformReplayBuffer/Table/slot", (100, 3), "other"),
        ("agent/experience_replay_memory/rewards", (100,), "other"),
        ("display_buffer/w", K, "weight"),
        ("replay_buffer", K, "weight"),
    ],
    "masks": [
        *DENSE,
        ("out/kernel", K, "weight"),
        ("dense/kernel/mask", K, "weight"),
        ("out/kernel/mask", K, "weight"),
    ],
    "Keras before it": [
        *DENSE,
        ("trainer/iterations", "int64", "optimizer"),
        ("trainer/lr", (), "optimizer"),
        ("trainer/beta_1", (), "optimizer"),
        ("trainer/decay", (), "optimizer"),
        ("other/beta_1", (), "weight"),
        ("other/decay", (), "weight"),
    ],
    "tf_keras": [
        *DENSE,
        ("Adam/m/dense/kernel", K, "slot"),
        ("Adam/v/dense/bias", (2,), "slot"),
        ("Adam/v/dense/other", (2,), "weight"),
        ("iteration", "int64", "optimizer"),
        ("learning_rate", (), "optimizer"),
    ],
    "loss scale": [
        *DENSE,
        ("loss_scale", (), "optimizer"),
        ("current_loss_scale", (), "optimizer"),
        ("good_steps_1", "int64", "optimizer"),
        ("bad_steps", "int32", "optimizer"),
    ],
    "moving averages": [
        *DENSE,
        ("dense/kernel/ExponentialMovingAverage", K, "ema"),
        ("train/dense/kernel/ExponentialMovingAverage_1", K, "ema"),
        # The only copy of what they average: an older batch normalization infers with them.
        ("gone/kernel/ExponentialMovingAverage", K, "weight"),
        ("moments/Squeeze/ExponentialMovingAverage", (2,), "weight"),
        ("ExponentialMovingAverage", (2,), "weight"),
        ("dense/kernel/Adam/ExponentialMovingAverage", K, "weight"),
        ("dense/bias/ema", (2,), "ema"),
        ("dense/bias/EMA", (3,), "weight"),
        ("mul/ExponentialMovingAverage", (), "weight"),
        ("mul/ExponentialMovingAverage/biased", (), "other"),
        ("mul/ExponentialMovingAverage/local_step", (), "other"),
    ],
    "batch normalization": [
        ("BatchNorm/beta", (2,), "weight"),
        ("BatchNorm/moving_mean", (2,), "weight"),
        ("BatchNorm/moving_variance", (2,), "weight"),
        ("BatchNorm/BatchNorm/moving_mean/biased", (2,), "other"),
        ("BatchNorm/BatchNorm/moving_mean/local_step", (), "other"),
        ("BatchNorm_1/moving_mean", (2,), "weight"),
    ],
    "steps": [
        ("step", "int32", "step"),
        ("global_step_1", "int64", "step"),
        ("worker/local_step", "int64", "step"),
        ("sync_rep_local_step", "int64", "step"),
        ("save_counter", "int64", "step"),
        ("step_size", "int64", "weight"),
        ("tower/global_step", (), "step"),  # TFLearn counts with floats
        ("Global_Step", (), "step"),
        ("Training_step", (), "step"),
        ("rate/step", (), "weight"),
        ("optimizer/global_step", "int64", "step"),
        ("ckpt_saved_epoch", "int64", "step"),
        ("_train_counter", "int64", "step"),
        ("STEP", "int64", "step"),
    ],
    "tables": [
        ("table-keys", "string", "table"),
        ("table-values", "int64", "table"),
        ("lookup/t-keys", "int64", "table"),
        ("lookup/t-values", (), "table"),
        ("lone-keys", "int64", "weight"),
        ("lone-words-values", "string", "other"),
    ],
    "iterators": [
        ("IteratorV2:0-state", "variant", "iterator"),
        ("input_pipeline_STATE", "variant", "iterator"),
        ("OneShotIterator", "variant", "iterator"),
        ("optional", "variant", "other"),
    ],
    "other": [
        ("mean/total", (), "other"),
        ("mean/count", (), "other"),
        ("count", (), "weight"),
        ("auc/true_positives", (200,), "other"),
        ("StateVar", (3,), "weight"),
        ("words", "string", "other"),
        (GRAPH_KEY, "string", "graph"),
    ],
}


def entry(what: tuple[int, ...] | str) -> BundleEntry:
    if isinstance(what, str):
        return BundleEntry(dtype_of_name(what), ())
    return BundleEntry(dtype_of_name("float32"), what)


@pytest.mark.parametrize("name", CASES)
def test_kinds_from_names(name: str) -> None:
    rows = CASES[name]
    kinds = kinds_from_names({key: entry(what) for key, what, _ in rows})
    assert kinds == {key: kind for key, _, kind in rows}
    assert list(kinds) == [key for key, _, _ in rows]


@pytest.mark.parametrize("name", CASES)
def test_the_order_of_names_does_not_matter(name: str) -> None:
    rows = CASES[name][::-1]
    kinds = kinds_from_names({key: entry(what) for key, what, _ in rows})
    assert kinds == {key: kind for key, _, kind in rows}


def test_the_random_state_of_a_generator() -> None:
    state = BundleEntry(dtype_of_name("int64"), (3,))
    assert kinds_from_names({"StateVar": state}) == {"StateVar": "other"}


def entries_of(name: str) -> tuple[str, dict[str, BundleEntry]]:
    prefix = bundle(name).prefix
    with BundleReader(prefix) as reader:
        return prefix, dict(reader.entries)


SAVERS = [one.name for one in bundles() if "/saver" in one.name and "saveables" not in one.name]


@pytest.mark.parametrize("name", SAVERS)
def test_savers_of_all_releases(name: str) -> None:
    prefix, entries = entries_of(name)
    kinds = kinds_from_names(entries)
    for key, kind in kinds.items():
        last = key.rpartition("/")[2].partition("_")[0]
        if last in ("Adam", "Momentum"):
            assert kind == "slot"
        elif last == "ExponentialMovingAverage":
            assert kind == "ema"
        elif last in ("beta1", "beta2"):
            assert kind == "optimizer"
        elif key == "global_step":
            assert kind == "step"
        else:
            assert kind in ("weight", "other"), key
    if os.path.exists(prefix + ".meta"):
        assert kinds_from_metagraph(entries, read_metagraphs(prefix + ".meta")[0]) == kinds
    assert SAVERS


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("v2/tf1.15/saveables/model", ["iterator", "table", "table", "weight"]),
        (
            "v2/tf1.15/estimator/run/model.ckpt-10",
            ["step", "weight", "slot", "weight", "slot"],
        ),
    ],
)
def test_other_fixtures(name: str, kinds: list[str]) -> None:
    prefix, entries = entries_of(name)
    assert list(kinds_from_names(entries).values()) == kinds
    (graph,) = read_metagraphs(prefix + ".meta")
    assert list(kinds_from_metagraph(entries, graph).values()) == kinds


def metagraph(**collections: list[Variable]) -> MetaGraph:
    return MetaGraph(
        path="",
        tensorflow_version="",
        git_version="",
        producer=0,
        stripped_default_attrs=False,
        tags=(),
        nodes=0,
        functions=0,
        ops=(),
        objects=0,
        collections=(),
        variables={key: tuple(found) for key, found in collections.items()},
        signatures=(),
        saver=None,
        assets=(),
    )


def test_a_metagraph_knows_better() -> None:
    rows: Rows = [
        ("a", K, "weight"),
        ("a/Adam", K, "weight"),  # trained itself
        ("a/Adam/Adam", K, "slot"),
        ("b", K, "weight"),
        ("b/Adam", K, "weight"),  # "b" is not trained, and has no slots
        ("a/m", K, "slot"),
        ("a/own", K, "weight"),  # not all that is trained has one
        ("rows", (4, 2), "weight"),
        ("rows/Momentum", (4, 2), "slot"),
        ("ticks", "int64", "step"),
        ("hits", (), "other"),
        ("stat/ExponentialMovingAverage", K, "weight"),
        ("dense/kernel/Adam", K, "weight"),
    ]
    part = VariableSlice("rows", (4, 2), (0, 0), (2, 2))
    graph = metagraph(
        trainable_variables=[
            Variable("a:0"),
            Variable("a/Adam:0"),
            Variable("rows/part_0:0", part=part),
            Variable("gone:0"),
        ],
        model_variables=[Variable("stat/ExponentialMovingAverage:0"), Variable("gone:0")],
        moving_average_variables=[Variable("a:0")],
        metric_variables=[Variable("hits:0"), Variable("gone:0")],
        global_step=[Variable("ticks:0")],
    )
    kinds = kinds_from_metagraph({key: entry(what) for key, what, _ in rows}, graph)
    assert kinds == {key: kind for key, _, kind in rows}


def test_without_collections_the_names_decide() -> None:
    rows = CASES["Adam of TensorFlow 1"]
    entries = {key: entry(what) for key, what, _ in rows}
    assert kinds_from_metagraph(entries, metagraph()) == kinds_from_names(entries)


def test_a_counter_stays_a_step_though_it_is_listed_as_trained() -> None:
    graph = metagraph(trainable_variables=[Variable("global_step:0"), Variable("w:0")])
    entries = {"global_step": entry("int32"), "w": entry(K)}
    assert kinds_from_metagraph(entries, graph) == {"global_step": "step", "w": "weight"}


def test_hostile_names_have_kinds_too() -> None:
    names = ["", "/", "//", "/Adam", "_1", "x/_1", "-keys", "-values", "_slot_v", "\udcff", "Adam/"]
    names += ["/".join("ab" * 200_000) + "/m", "Adam/" * 100_000, "w/" + "Adam" * 100_000 + "-"]
    kinds = kinds_from_names({name: entry(K) for name in names})
    assert list(kinds) == names
    assert set(kinds.values()) <= set(KINDS)


@pytest.mark.large
@pytest.mark.sweep(4)
@pytest.mark.parametrize("slot", ["{}/Adam", "training/Adam/{}/m", "Adam/m/{}", "{}/own"])
def test_200_000_names_have_kinds(slot: str) -> None:
    names = [f"model/block_{i // 100}/layer_{i}/kernel" for i in range(100_000)]
    entries = {one: entry(K) for name in names for one in (name, slot.format(name))}
    entries |= {one: entry((3,)) for name in ("bias",) for one in (name, slot.format(name))}
    kinds = kinds_from_names(entries)
    assert list(kinds.values()).count("slot") == 100_001
