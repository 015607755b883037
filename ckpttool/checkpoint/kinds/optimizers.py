"""What optimizers call themselves and the variables that they keep: the words that tell kinds.

These words alone prove nothing. A rule that goes by one of them wants a second witness, such as a
variable of the name that stands before it and of the same shape.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# The name that TensorFlow 1 gives a slot, after the optimizer; a user's own optimizer may contain
# one of these words.
_OPTIMIZER = re.compile(
    r"\w*(?:(?:Ada|N[Aa]da)(?:m|[Mm]ax|[Gg]rad|[Dd]elta|[Ff]actor)|Momentum|RMS[Pp]rop|Ftrl|LAMB|Lamb|"
    r"LARS|Lion|SGD|GradientDescent|PowerSign|AddSign|Shampoo|Optimizer)\w*"
)
# The optimizers of Keras and its add-ons by the names of their classes, and as Keras 3 spells
# them in scopes.
_KERAS_OPTIMIZER = re.compile(
    r"(?:Ada(?:delta|factor|grad|m|mW|max)|Ftrl|Lamb|Lion|Muon|Nadam|RMSprop|SGD|"
    r"ada(?:delta|factor|grad|m|m_w|max)|ftrl|lamb|lion|muon|nadam|rmsprop|sgd|"
    r"LossScaleOptimizer|MultiOptimizer|ScheduleFreeAdamW|TFOptimizer|MovingAverage|SWA|"
    r"loss_scale_optimizer|multi_optimizer|schedule_free_adam_w)(?:_\d+)*"
)
# What BERT's optimizers call the slots of Adam.
BERT_SLOTS = {"adam_m": "m", "adam_v": "v", "lamb_m": "m", "lamb_v": "v"}
# What optimizers call slots that they do not name after themselves.
SLOTS = frozenset(
    {"m", "v", "vhat", "momentum", "velocity", "rms", "mg", "accumulator", "linear", "accum_grad"}
    | {"accum_var", "slot", *BERT_SLOTS}
)
# Slots that hold a number for each row or column of their variable.
FACTORS = frozenset({"vr", "vc", "slot_v", "slot_vr", "slot_vc"})
MESH_SLOT = re.compile(r"(.+)_slot_(?:m|v|vr|vc)")
# What the older Keras called slots, with a number behind: all of them, then by their purpose.
KERAS_NUMBERED = frozenset({"Variable", "m", "v", "vhat", "u", "accumulator", "moment"}) | {
    "delta_accumulator"
}
# What Keras calls slots today; the name is before or behind that of the variable.
KERAS_SLOTS = KERAS_NUMBERED - {"Variable"} | frozenset(
    {"momentum", "velocity", "velocity_hat", "norm", "linear", "r", "c", "average"}
    | {"accumulated_grad", "accumulated_delta_var", "average_gradient", "gradient_accumulator"}
)
# The scope that Keras makes the variables of an optimizer in.
KERAS_TRAINING = re.compile(r"training(?:_\d+)?")
# The leaf of a moving average that TensorFlow makes.
AVERAGED = "ExponentialMovingAverage"
# Slots in which averaging optimizers keep the average itself; and what programs call averages.
AVERAGE_SLOTS = frozenset({"average", "ema", "moving_average"})
AVERAGES = AVERAGE_SLOTS | {"EMA", "MovingAverage"}
# Kept beside a moving average that starts from zero.
DEBIAS = frozenset({"biased", "local_step"})
ITERATOR = re.compile(r"iterator|[-_]state\Z", re.IGNORECASE)
# The counters of optimizers.
COUNTERS = ("iter", "iterations", "iteration")
# What an agent has seen lies in one of these; what is in the tables of TF-Agents is known by them.
_REPLAY = re.compile(r"(?:^|/)[^/]*[Rr]eplay_?(?:[Bb]uffer|[Mm]emory)[^/]*/|/_(?:data|id)_table/")
_NUMBER = re.compile(r"_\d+\Z")
# A file may hold names of any length: so many characters an optimizer's name has at most, and so
# many segments a scope that an optimizer is applied in.
_LONGEST = 100
_DEEPEST = 16


def without_number(segment: str) -> str:
    """Return a segment of a name without the number that tells it from others."""
    return _NUMBER.sub("", segment)


def names_optimizer(segment: str) -> bool:
    """Tell whether a segment has an optimizer's name in it, or is one of Keras."""
    if names_keras_optimizer(segment):
        return True
    return len(segment) <= _LONGEST and _OPTIMIZER.fullmatch(segment) is not None


def names_keras_optimizer(segment: str) -> bool:
    """Tell whether a segment is the name of an optimizer of Keras, with any number behind it."""
    return len(segment) <= _LONGEST and _KERAS_OPTIMIZER.fullmatch(segment) is not None


def in_replay_buffer(name: str) -> bool:
    """Tell whether a path or name leads through a replay buffer."""
    # Most names have neither word in them.
    return ("eplay" in name or "_table/" in name) and _REPLAY.search(name) is not None


def endings(scope: str) -> Iterator[tuple[str, str]]:
    """Yield the scope cut in two before its first segment and before some of the next."""
    outer, inner = "", scope
    for _ in range(_DEEPEST):
        yield outer, inner
        step, _, inner = inner.partition("/")
        if not inner:
            break
        outer = f"{outer}/{step}" if outer else step
