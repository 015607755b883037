from __future__ import annotations

import re
from fnmatch import fnmatchcase

import pytest

from ckpttool.bundle.entry import BundleEntry
from ckpttool.checkpoint.kinds.objects import kinds_from_graph, kinds_from_keys
from ckpttool.checkpoint.kinds.rules import KINDS
from ckpttool.objects.graph import ObjectGraph
from ckpttool.objects.keys import GRAPH_KEY, attribute_key, object_path
from ckpttool.tensor.dtypes import dtype_of_name
from tests.metagraph.graph_files import FIXTURES, MADE, load
from tests.support.limits import run_python

# Where the keys say less than the graph: object path (a regular expression), kind by the graph,
# kind by the keys.
EXCEPTIONS = {
    # Averages share the list of slots that Keras meets first; the graph has a second path.
    "keras3_average_loss_scale": (r"optimizer/inner_optimizer/_variables/[2-7]", "ema", "slot"),
    "tf_keras_average": (r"optimizer/_variables/[1-6]", "ema", "slot"),
    "v2/tf2.21/tf_keras_new_adam_ema/ckpt-1": (r"optimizer/_variables/[1-4]", "ema", "slot"),
    # Nothing but the name of the variable in the program tells what these are.
    "moving_average": (r"net/averages/0", "ema", "weight"),
    "keras3_export": (r"variables/2", "other", "weight"),
}

# By name of the graph, patterns of object paths and the kind of all that they match.
LEGACY = {"model/*/.OPTIMIZER_SLOT/*": "slot", "optimizer/*": "optimizer"} | {
    f"model/layer_with_weights-{layer}/{name}": "weight"
    for layer, names in enumerate(
        (("kernel", "bias"), ("gamma", "beta", "moving_*"), ("kernel", "bias"))
    )
    for name in names
}
TF_KERAS = {name: kind for name, kind in LEGACY.items() if kind == "weight"}
KERAS_3 = {
    "model/_functional/_operations/2/moving_mean": "weight",
    "model/_functional/_operations/2/moving_variance": "weight",
    "optimizer/_trainable_variables/[0-5]": "weight",
    "optimizer/_iterations": "optimizer",
    "optimizer/_learning_rate": "optimizer",
}
COUNTER = {"save_counter": "step"}
EXPECTED: dict[str, dict[str, str]] = {
    "keras3_adam_amsgrad": KERAS_3 | COUNTER | {"optimizer/_variables/*": "slot"},
    "keras3_adafactor": KERAS_3 | COUNTER | {"optimizer/_variables/*": "slot"},
    "keras3_average_loss_scale": KERAS_3
    | COUNTER
    | {
        "optimizer/dynamic_scale": "optimizer",
        "optimizer/step_counter": "optimizer",
        "optimizer/inner_optimizer/_iterations": "optimizer",
        "optimizer/inner_optimizer/_learning_rate": "optimizer",
        "optimizer/inner_optimizer/_variables/[2-7]": "ema",
        "optimizer/inner_optimizer/_variables/[89]": "slot",
        "optimizer/inner_optimizer/_variables/1[0-3]": "slot",
    },
    "keras3_nadam_in_trainer": COUNTER
    | {
        "trainer/model/_functional/_operations/2/moving_*": "weight",
        "trainer/g_optimizer/_trainable_variables/*": "weight",
        "trainer/g_optimizer/_variables/*": "slot",
        "trainer/g_optimizer/_[ilu]*": "optimizer",
        "trainer/global_step": "step",
    },
    "keras3_sgd_only": COUNTER
    | {"opt/_trainable_variables/[01]": "weight", "opt/_[il]*": "optimizer"},
    "keras3_export": {"variables/[01]": "weight", "variables/2": "other", "_all_*": "weight"},
    "tf_keras_adafactor": TF_KERAS
    | COUNTER
    | {
        "optimizer/_variables/*": "slot",
        "optimizer/_[cr]/?": "slot",
        "optimizer/_iterations": "optimizer",
        "optimizer/_learning_rate": "optimizer",
    },
    "tf_keras_average": TF_KERAS
    | COUNTER
    | {
        "optimizer/_variables/[1-6]": "ema",
        "optimizer/_variables/[7-9]": "slot",
        "optimizer/_variables/1[0-8]": "slot",
        "optimizer/_[il]*": "optimizer",
    },
    "tf_keras_loss_scale": COUNTER
    | {
        "my_opt/_variables/*": "slot",
        "my_opt/_[il]*": "optimizer",
        "my_opt/loss_scale/current_loss_scale": "optimizer",
        "my_opt/loss_scale/good_steps": "optimizer",
    },
    "tf_keras_schedule": TF_KERAS
    | COUNTER
    | {
        "model/optimizer/_variables/*": "slot",
        "model/optimizer/_iterations": "optimizer",
        "model/optimizer/_current_learning_rate": "optimizer",
        "model/optimizer/_u_product": "optimizer",
    },
    "tf_keras_saved_model": {
        "layer_with_weights-?/*": "weight",
        "optimizer/_variables/*": "slot",
        "optimizer/_[il]*": "optimizer",
        "keras_api/metrics/?/*": "other",
    },
    "legacy_ftrl": LEGACY | COUNTER,
    "legacy_nadam_loss_scale": LEGACY | COUNTER,
    "legacy_schedule_without_slots": COUNTER | {"d_opt/*": "optimizer"},
    "two_optimizers": COUNTER
    | {
        "t/g/layer_with_weights-0/*": "weight",
        "t/d/layer_with_weights-0/kernel": "weight",
        "t/d/layer_with_weights-0/bias": "weight",
        "t/d/layer_with_weights-0/*/.OPTIMIZER_SLOT/t/opts/1/[mv]": "slot",
        "t/opts/0/_variables/*": "slot",
        "t/opts/0/_[il]*": "optimizer",
        "t/opts/1/*": "optimizer",
    },
    "v1_optimizers": COUNTER
    | {
        "net/w": "weight",
        "net/w/.OPTIMIZER_SLOT/adam/[mv]": "slot",
        "net/w/.OPTIMIZER_SLOT/rms/*": "slot",
        "adam/beta[12]_power": "optimizer",
        "global_step": "step",
    },
    "everything_else": COUNTER
    | {
        "table/.table-*": "table",
        "iterator/.ITERATOR_STATE": "iterator",
        "gen/_state_var": "other",
        "state/.py_state": "other",
        "mean/*": "other",
        "auc/*": "other",
        "holder/learning_rate": "optimizer",
        "holder/beta_1": "weight",
        "holder/epoch": "step",
        "holder/count": "weight",
        "holder/text": "other",
        "holder/flag": "other",
        "norm/*": "weight",
        "train_step": "step",
        "step": "weight",  # a float: no count of steps
        "codes": "weight",
        "many/*": "weight",
    },
    "moving_average": COUNTER | {"net/w": "weight", "net/averages/0": "ema"},
    "shared_and_circular": COUNTER | {"z": "weight"},
}

VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"


def entry(dtype: str = "float32", *shape: int) -> BundleEntry:
    return BundleEntry(dtype_of_name(dtype), shape)


def by_path(kinds: dict[str, str]) -> dict[str, str]:
    return {object_path(key) or key: kind for key, kind in kinds.items() if key != GRAPH_KEY}


def both(name: str) -> tuple[dict[str, str], dict[str, str]]:
    made = load(name)
    graph = ObjectGraph.from_bytes(made.graph)
    return dict(kinds_from_graph(made.entries, graph)), dict(kinds_from_keys(made.entries))


def test_every_graph_has_its_expectations() -> None:
    assert EXPECTED.keys() == set(MADE)


@pytest.mark.parametrize("name", EXPECTED)
def test_kinds_by_the_graph(name: str) -> None:
    kinds, _ = both(name)
    used = set()
    for path, kind in by_path(kinds).items():
        # "*" crosses "/", so the longest pattern that fits is the one that is meant.
        pattern = max((one for one in EXPECTED[name] if fnmatchcase(path, one)), key=len)
        assert kind == EXPECTED[name][pattern], path
        used.add(pattern)
    assert used == EXPECTED[name].keys()
    assert kinds[GRAPH_KEY] == "graph"


@pytest.mark.sweep(5)
@pytest.mark.parametrize("name", [*MADE, *FIXTURES])
def test_keys_and_graph_agree(name: str) -> None:
    by_graph, by_keys = both(name)
    made = load(name)
    assert list(by_graph) == list(by_keys) == list(made.entries)
    assert set(by_graph.values()) <= set(KINDS)
    pattern, with_graph, with_keys = EXCEPTIONS.get(name, ("(?!)", "", ""))
    excepted = 0
    for key, kind in by_graph.items():
        if re.fullmatch(pattern, object_path(key) or ""):
            assert (kind, by_keys[key]) == (with_graph, with_keys)
            excepted += 1
        else:
            assert kind == by_keys[key], key
    assert bool(excepted) == (name in EXCEPTIONS)


def test_the_exceptions_exist() -> None:
    assert EXCEPTIONS.keys() <= {*MADE, *FIXTURES}


def kinds_of(tensors: dict[str, BundleEntry]) -> dict[str, str]:
    kinds = kinds_from_keys({path + VALUE: found for path, found in tensors.items()})
    return {key.removesuffix(VALUE): kind for key, kind in kinds.items()}


def test_a_trainer_is_no_optimizer_of_what_it_trains() -> None:
    # A counter and a rate beside the model make the scalars an optimizer's, nothing else.
    assert kinds_of(
        {
            "trainer/iter": entry("int64"),
            "trainer/learning_rate": entry(),
            "trainer/w": entry("float32", 3),
            "trainer/model/layers/0": entry("float32", 3),
            "trainer/_variables/3": entry("float32", 3),
        }
    ) == {
        "trainer/iter": "optimizer",
        "trainer/learning_rate": "optimizer",
        "trainer/w": "weight",
        "trainer/model/layers/0": "weight",
        "trainer/_variables/3": "weight",
    }


def test_an_optimizer_that_is_the_root() -> None:
    assert kinds_of(
        {
            "_iterations": entry("int64"),
            "_learning_rate": entry(),
            "_variables/1": entry("float32", 3),
            "_trainable_variables/0": entry("float32", 3),
            "model/layers/0": entry("float32", 3),
            "save_counter": entry("int64"),
        }
    ) == {
        "_iterations": "optimizer",
        "_learning_rate": "optimizer",
        "_variables/1": "slot",
        "_trainable_variables/0": "weight",
        "model/layers/0": "weight",
        "save_counter": "step",
    }


def test_slots_of_a_root_optimizer_and_of_no_variable() -> None:
    kinds = kinds_of(
        {
            "w/.OPTIMIZER_SLOT//m": entry("float32", 2),
            "alpha": entry(),
            "w": entry("float32", 2),
            "step": entry("int64"),
        }
    )
    assert kinds == {
        "w/.OPTIMIZER_SLOT//m": "slot",
        "alpha": "optimizer",
        "w": "weight",
        "step": "step",
    }


def test_what_optimizers_hold_besides_numbers() -> None:
    assert kinds_of(
        {
            "opt/_iterations": entry("int64"),
            "opt/name": entry("string"),
            "opt/trace": entry("float32", 3),
            "opt/words": entry("string", 2),
        }
    ) == {
        "opt/_iterations": "optimizer",
        "opt/name": "other",
        "opt/trace": "slot",
        "opt/words": "other",
    }


def test_averages_in_slots() -> None:
    path = "w/.OPTIMIZER_SLOT/opt/average"
    assert kinds_of({path: entry("float32", 2)}) == {path: "ema"}


@pytest.mark.parametrize(
    ("leaf", "dtype", "shape", "kind"),
    [
        ("step", "int32", (), "step"),
        ("step", "uint64", (), "step"),
        ("step", "float32", (), "weight"),
        ("step", "int64", (1,), "weight"),
        ("steps", "int64", (), "weight"),
        ("learning_rate", "bfloat16", (), "optimizer"),
        ("learning_rate", "float32", (3,), "weight"),
        ("learning_rate", "int32", (), "weight"),
        ("iterations", "int64", (), "optimizer"),
        ("iter", "int64", (), "weight"),
        ("decay", "float32", (), "weight"),
        ("total", "float32", (), "weight"),
        ("count", "int64", (), "weight"),
        ("moving_mean", "float32", (3,), "weight"),
        ("true_positives", "float32", (200,), "other"),
        ("true_positives", "float32", (), "weight"),
        ("_state_var", "int64", (3,), "other"),
        ("_state_var", "float32", (3,), "weight"),
        ("vocabulary", "string", (9,), "other"),
        ("handle", "variant", (), "other"),
        ("flag", "bool", (), "other"),
        ("mask", "bool", (4,), "weight"),
        ("codes", "qint8", (4,), "weight"),
    ],
)
def test_single_variables(leaf: str, dtype: str, shape: tuple[int, ...], kind: str) -> None:
    assert kinds_of({f"net/{leaf}": entry(dtype, *shape)}) == {f"net/{leaf}": kind}


@pytest.mark.parametrize(
    ("attribute", "dtype", "shape", "kind"),
    [
        ("table-keys", "string", (2,), "table"),
        ("my-values", "float32", (2,), "table"),
        ("ITERATOR_STATE", "variant", (3,), "iterator"),
        ("state", "variant", (), "iterator"),
        ("py_state", "string", (), "other"),
        ("OBJECT_CONFIG_JSON", "string", (), "other"),
        ("rows", "float32", (3, 2), "weight"),
        ("scale", "float32", (), "other"),
        ("ids", "int64", (3,), "other"),
    ],
)
def test_other_attributes(attribute: str, dtype: str, shape: tuple[int, ...], kind: str) -> None:
    key = attribute_key("x", attribute)
    assert kinds_from_keys({key: entry(dtype, *shape)}) == {key: kind}


def test_tensors_that_no_object_owns() -> None:
    entries = {
        GRAPH_KEY: entry("string"),
        "custom/w": entry("float32", 2),
        "custom/w/Adam": entry("float32", 2),
        "w" + VALUE: entry("float32", 2),
    }
    kinds = ["graph", "weight", "slot", "weight"]
    assert list(kinds_from_keys(entries).values()) == kinds
    empty = ObjectGraph.from_bytes(b"\x0a\x00")
    assert list(kinds_from_graph(entries, empty).values()) == kinds


def test_hostile_keys_have_kinds_too() -> None:
    keys = ["", "/", "//", VALUE, "/.OPTIMIZER_SLOT/" + VALUE, "a/.OPTIMIZER_SLOT/b" + VALUE]
    keys += ["\udcff" + VALUE, "/.ATTRIBUTES/", "x" + VALUE + VALUE]
    kinds = kinds_from_keys(dict.fromkeys(keys, entry("resource")))
    assert list(kinds) == keys
    assert set(kinds.values()) <= set(KINDS)


@pytest.mark.large
def test_200_000_keys_have_kinds() -> None:
    slots = [f"/.OPTIMIZER_SLOT/optimizer/{name}" for name in "mv"]
    entries = {
        f"model/layer_with_weights-{i}/{name}{slot}{VALUE}": entry("float32", 3, 5)
        for i in range(33_333)
        for name in ("kernel", "bias")
        for slot in ("", *slots)
    }
    kinds = kinds_from_keys(entries)
    assert list(kinds.values()).count("slot") == 133_332


def test_kinds_need_no_protobuf() -> None:
    code = (
        "import sys\n"
        "from ckpttool.checkpoint.kinds.names import kinds_from_names\n"
        "from ckpttool.checkpoint.kinds.objects import kinds_from_keys\n"
        "kinds_from_keys({}), kinds_from_names({})\n"
        "print([name for name in sys.modules if name.startswith(('google', 'numpy'))])"
    )
    assert run_python(code).stdout == "[]\n"


@pytest.mark.parametrize(
    ("path", "dtype", "shape", "kind"),
    [
        ("optimizer/global_step", "int64", (), "step"),
        ("optimizer/step", "int64", (), "optimizer"),
        ("ckpt_saved_epoch", "int64", (), "step"),
        ("model/_train_counter", "int64", (), "step"),
        ("Global_Step", "float32", (), "step"),
        ("replay_buffer/_data_table/_storage/0", "float32", (100, 3), "other"),
        ("buffer/_id_table/_storage", "int64", (100,), "other"),
        ("agent/replay/kernel", "float32", (3, 2), "weight"),
        ("replay_buffer", "float32", (3, 2), "weight"),
    ],
)
def test_what_stands_beside_weights(
    path: str, dtype: str, shape: tuple[int, ...], kind: str
) -> None:
    entries = {
        f"optimizer/_iterations{VALUE}": entry("int64"),
        f"net/kernel{VALUE}": entry("float32", 3, 2),
        f"{path}{VALUE}": entry(dtype, *shape),
    }
    assert kinds_from_keys(entries)[f"{path}{VALUE}"] == kind


def test_an_average_without_its_weight_is_a_weight() -> None:
    made = load("moving_average")
    graph = ObjectGraph.from_bytes(made.graph)
    kinds = kinds_from_graph(made.entries, graph)
    assert kinds[f"net/averages/0{VALUE}"] == "ema"
    left = {key: one for key, one in made.entries.items() if key != f"net/w{VALUE}"}
    assert kinds_from_graph(left, graph)[f"net/averages/0{VALUE}"] == "weight"
