"""Programs in two forms, with the rules that lead from the one to the other."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from ckpttool.surgery.rules import (
    MoveRule,
    PrefixRule,
    RenameRule,
    StripPrefixRule,
    SubstituteRule,
    parse_move,
)
from tests.interop import surgery_keras as keras_models
from tests.interop import surgery_objects as objects
from tests.interop.surgery_programs import LEGACY, Program, Side, legacy_net, new_optimizer_net


def moves(*texts: str) -> list[RenameRule]:
    """Return the rules that these words stand for."""
    return [parse_move(text) for text in texts]


def sub(regex: str, replacement: str) -> SubstituteRule:
    """Return the rule that replaces what an expression matches."""
    return SubstituteRule(re.compile(regex), replacement)


@dataclass(frozen=True, slots=True)
class Case:
    """A program, and the rules that lead from one of its forms to the other."""

    build: Callable[[Side], Program]
    rules: list[RenameRule]


NET = moves("net/l1/kernel=model/dense/w", "net/l1=model/dense", "net=model", "optimizer=opt")
NEW_NET = moves("net/l1=model/dense", "net=model", "optimizer=opt")
MODEL = moves("model/first=net/entry", "model=net", "optimizer=opt")
KERAS: dict[str, Callable[[Any], Any]] = {
    "adam": lambda keras: keras.optimizers.Adam(0.1),
    "momentum": lambda keras: keras.optimizers.SGD(0.1, momentum=0.9),
    "adafactor": lambda keras: keras.optimizers.Adafactor(0.1),
}
TF_KERAS: dict[str, Callable[[Any], Any]] = {
    "adam": lambda keras: keras.optimizers.Adam(0.1),
    "legacy_adam": lambda keras: keras.optimizers.legacy.Adam(0.1),
}
CASES: dict[str, Case] = {
    **{
        f"legacy_{name}": Case(partial(legacy_net, make=make), NET) for name, make in LEGACY.items()
    },
    **{
        f"{family}_{name}": Case(partial(new_optimizer_net, make=make), NEW_NET)
        for family, name, make in [
            ("tf_keras", "adam", lambda old, new: old.optimizers.Adam(0.1)),
            ("tf_keras", "average", lambda old, new: old.optimizers.Adam(0.1, use_ema=True)),
            ("tf_keras", "momentum", lambda old, new: old.optimizers.SGD(0.1, momentum=0.9)),
        ]
    },
    **{
        f"keras3_{name}": Case(partial(keras_models.model_beside_optimizer, make=make), MODEL)
        for name, make in KERAS.items()
    },
    **{
        f"keras3_{name}_sequential": Case(
            partial(keras_models.model_beside_optimizer, make=make, shape=keras_models.sequential),
            moves("model=net", "optimizer=opt"),
        )
        for name, make in KERAS.items()
    },
    **{
        f"keras3_{name}_compiled": Case(
            partial(keras_models.compiled, make=make), moves("model=net")
        )
        for name, make in KERAS.items()
    },
    **{
        f"tf_keras_{name}_model": Case(
            partial(keras_models.model_beside_optimizer, make=make, three=False), MODEL
        )
        for name, make in TF_KERAS.items()
    },
    **{
        f"tf_keras_{name}_compiled": Case(
            partial(keras_models.compiled, make=make, three=False), moves("model=net")
        )
        for name, make in TF_KERAS.items()
    },
    "lists": Case(
        objects.lists,
        moves("net/layers/0=net/blocks/2", "net/layers/2=net/blocks/0", "net/layers=net/blocks"),
    ),
    "dicts": Case(
        objects.dicts,
        moves(
            "net/mapping/k=net/mapping/key",
            "net/mapping/inner/deep=net/mapping/inner/deeper",
            "net/ordered=net/sorted",
        ),
    ),
    "tuples": Case(objects.tuples, moves("net/t=net/u", "net/pair/left=net/pair/first")),
    **{
        f"shared_{alias}": Case(
            partial(objects.shared, alias=alias),
            [
                MoveRule(f"net/{path}", f"net/{path}_new")
                for path in ("main", "holder/held", "weight")
                if alias in (path.rpartition("/")[2], "all")
            ],
        )
        for alias in ("main", "held", "weight", "all")
    },
    "cyclic": Case(objects.cyclic, moves("a/other=x/peer", "a/me=x/self_", "a=x")),
    "odd_names": Case(
        objects.odd_names,
        [MoveRule(f"net/d/{old}", f"net/d/{new}") for _, _, old, new in objects.ODD_NAMES],
    ),
    "moved_out": Case(
        objects.moved_out, moves("net/head/proj=net/body/output", "net/head/norm=norm")
    ),
    "moved_into_new": Case(objects.moved_into_new, moves("w=deep/below/w", "old/v=deep/v")),
    "crossed": Case(
        objects.crossed, moves("left/x=left/x", "right/y=right/y", "left=right", "right=left")
    ),
    "states": Case(
        objects.states,
        moves(
            "table=words", "data=input.Sdata", "box/dense=box/hashed", "generator=rng", "text=state"
        ),
    ),
    "rooted": Case(objects.rooted, moves("blocks=layers")),
    "prefix": Case(partial(objects.towered, inward=True), [PrefixRule("tower/")]),
    "strip_prefix": Case(partial(objects.towered, inward=False), [StripPrefixRule("tower/")]),
    "sub": Case(
        objects.stack,
        [sub(r"l(\d+)/attn", r"layer_\1/self_attn"), sub(r"l(\d+)$", r"layer_\1")],
    ),
    "cut": Case(objects.cut, moves("matrix=table", "part/cube=cube")),
    "sharded": Case(objects.sharded, moves("net/table=net/embeddings")),
}
