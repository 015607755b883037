"""The kinds, and the rules that object-based and name-based checkpoints share."""

from __future__ import annotations

from typing import Literal, Protocol, get_args

from ckpttool.tensor.dtypes import DType
from ckpttool.tensor.shape import Shape

Kind = Literal["weight", "slot", "optimizer", "step", "ema", "iterator", "table", "graph", "other"]
KINDS: tuple[Kind, ...] = get_args(Kind)
# What an optimizer keeps for each weight, and all that it keeps.
SLOT_KINDS: frozenset[str] = frozenset({"slot"})
OPTIMIZER_KINDS: frozenset[str] = SLOT_KINDS | {"optimizer"}


class Described(Protocol):
    """The dtype and shape of a tensor; an entry of a bundle has them."""

    @property
    def dtype(self) -> DType:
        """Of the elements."""

    @property
    def shape(self) -> Shape:
        """Of the whole tensor."""


INTEGERS = frozenset(f"{sign}int{bits}" for sign in ("", "u") for bits in (2, 4, 8, 16, 32, 64))
FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})
# Dtypes that no layer computes with.
_OPAQUE = frozenset({"string", "variant", "resource"})
ODD_DTYPES = _OPAQUE | {"bool"}

# Integer scalars of these names count training steps, in upper or lower case, with or without an
# underscore before them.
STEPS = frozenset(
    {"save_counter", "step", "local_step", "sync_rep_local_step", "epoch", "train_counter"}
    | {"global_step", "train_step", "training_step", "ckpt_saved_epoch", "ckpt_saved_batch"}
)
# So do float scalars of these, in TFLearn.
_FLOAT_STEPS = frozenset({"global_step", "train_step", "training_step"})
# Integer scalars of these names belong to an optimizer.
_COUNTERS = frozenset(
    {"iterations", "_iterations", "iteration"}
    | {"good_steps", "bad_steps", "_num_good_steps", "num_good_steps"}
)
# Float scalars of these names do.
_HYPER_PARAMETERS = frozenset(
    {
        "learning_rate",
        "_learning_rate",
        "_current_learning_rate",
        "lr",
        "beta1_power",
        "beta2_power",
        "loss_scale",
        "current_loss_scale",
        "_current_loss_scale",
    }
)
# At least one of these is beside the step counter "iter" of a Keras optimizer.
LEGACY_HYPER_PARAMETERS = frozenset(
    {"decay", "learning_rate", "momentum", "beta_1", "beta_2", "rho", "weight_decay"}
)
_CONFUSIONS = frozenset(
    {"true_positives", "true_negatives", "false_positives", "false_negatives", "total_cm"}
)
RANDOM_STATES = frozenset({"_state_var", "StateVar", "seed_generator_state"})

_SPECIAL_NAMES = STEPS | _COUNTERS | _HYPER_PARAMETERS | _CONFUSIONS | RANDOM_STATES


def is_special(leaf: str) -> bool:
    """Tell whether a rule knows this name; for all others the dtype decides."""
    return leaf in _SPECIAL_NAMES or _as_step(leaf) in STEPS


def variable_kind(leaf: str, entry: Described) -> Kind:
    """Return the kind of a variable by its own name, the last segment of its path or key.

    In doubt it is a weight: losing one is worse than keeping something else. Anything neither
    `is_special` nor of one of the `ODD_DTYPES` is a weight.
    """
    dtype = entry.dtype.name
    if not is_special(leaf):
        if dtype in _OPAQUE or (dtype == "bool" and not entry.shape):
            return "other"
        return "weight"
    if not entry.shape:
        if dtype in INTEGERS:
            if _as_step(leaf) in STEPS:
                return "step"
            if leaf in _COUNTERS:
                return "optimizer"
        elif dtype in FLOATS and _as_step(leaf) in _FLOAT_STEPS:
            return "step"
        elif dtype in FLOATS and leaf in _HYPER_PARAMETERS:
            return "optimizer"
    elif leaf in _CONFUSIONS or (leaf in RANDOM_STATES and dtype in INTEGERS):
        return "other"
    return "other" if dtype in _OPAQUE else "weight"


def _as_step(leaf: str) -> str:
    return leaf.lstrip("_").lower()


def is_scalar(entry: Described | None, dtypes: frozenset[str]) -> bool:
    """Tell whether the tensor exists and is a scalar of one of these dtypes."""
    return entry is not None and not entry.shape and entry.dtype.name in dtypes


def averages(total: Described | None, count: Described | None) -> bool:
    """Tell whether tensors "total" and "count" in one scope belong to a metric."""
    return (
        total is not None
        and count is not None
        and total.shape == count.shape
        and total.dtype.name in FLOATS
        and count.dtype.name in FLOATS
    )
