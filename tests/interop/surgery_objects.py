"""Programs of every form but training: containers, shared objects, odd names, other state."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from typing import Any

import numpy as np

from tests.interop.surgery_keras import built
from tests.interop.surgery_programs import Program, Side, keras_families, trainer, with_slots
from tests.interop.values import Array

Pair = namedtuple("Pair", ["left", "right"])
OtherPair = namedtuple("OtherPair", ["first", "right"])

# Names in the program, before and after, and how a rule spells them.
ODD_NAMES = (
    ("a/b", "c.d", r"a.Sb", r"c..d"),
    ("dotted.name", "slashed/name", "dotted..name", "slashed.Sname"),
    (".S", "..", "..S", "...."),
    ("with space", " two  spaces ", "with space", " two  spaces "),
    ("größe", "日本語 🙂", "größe", "日本語 🙂"),
    (".ATTRIBUTES", ".OPTIMIZER_SLOT", "..ATTRIBUTES", "..OPTIMIZER_SLOT"),
    ("x[0]*?{a,b}", '"quoted"\\', "x[0]*?{a,b}", '"quoted"\\'),
    ("line\nbreak", "tab\there\x1b[31m", "line\nbreak", "tab\there\x1b[31m"),
    ("=x", "re:x", "=x", "re:x"),
)


def lists(side: Side) -> Program:
    """`layers` becomes `blocks`; elements 0 and 2 change places."""
    inner = [side.var("inner0"), side.var("inner1")]
    first, second, third = side.var("first"), side.var("second"), inner
    elements = [third, second, first] if side.renamed else [first, second, third]
    return side.program(net=side.module(**{side("layers", "blocks"): elements}))


def dicts(side: Side) -> Program:
    """Keys `k` and `inner/deep` get other names; so does the attribute of an OrderedDict."""
    mapping = {
        side("k", "key"): side.var("k"),
        "inner": {side("deep", "deeper"): [side.var("deep")], "plain": side.var("plain")},
    }
    ordered = OrderedDict([("z", side.var("z")), ("a", side.var("a"))])
    return side.program(net=side.module(mapping=mapping, **{side("ordered", "sorted"): ordered}))


def tuples(side: Side) -> Program:
    """The tuple `t` becomes `u`, the field `left` of a namedtuple `first`."""
    pair = (OtherPair if side.renamed else Pair)(side.var("left"), [side.var("right")])
    plain = (side.var("t0"), (side.var("t1"), "not tracked"))
    return side.program(net=side.module(**{side("t", "u"): plain, "pair": pair}))


def shared(side: Side, alias: str = "all") -> Program:
    """One module and one variable have several names; one name of them changes, or all."""

    def name(old: str) -> str:
        return side(old, old + "_new" if alias in (old, "all") else old)

    module = side.module(w=side.var("w", (2,)), b=side.var("b"))
    holder = side.module(**{name("held"): module})
    parts: dict[str, Any] = {
        name("main"): module,
        "holder": holder,
        "listed": [module.w],
        name("weight"): module.w,
    }
    return side.program(net=side.module(**parts))


def cyclic(side: Side) -> Program:
    """`a` and `b` know each other, and themselves; `a` becomes `x`, its `other` `peer`."""
    a, b = side.module(w=side.var("w")), side.module(v=side.var("v"))
    setattr(a, side("other", "peer"), b)
    setattr(a, side("me", "self_"), a)
    b.other = a
    return side.program(**{side("a", "x"): a, "b": b})


def odd_names(side: Side) -> Program:
    """Names that are spelled otherwise in keys, or are odd to print."""
    mapping = {side(old, new): side.var(old) for old, new, _, _ in ODD_NAMES}
    return side.program(net=side.module(d=mapping))


def moved_out(side: Side) -> Program:
    """`net/head/proj` moves to an object that is there, `net/head/norm` to the root."""
    proj = side.module(w=side.var("proj", (2, 2)))
    norm = side.module(scale=side.var("scale"))
    head = side.module(bias=side.var("bias"))
    body = side.module(w=side.var("body"))
    net = side.module(head=head, body=body)
    if side.renamed:
        body.output = proj
        return side.program(net=net, norm=norm)
    head.proj, head.norm = proj, norm
    return side.program(net=net)


def moved_into_new(side: Side) -> Program:
    """`w` moves into objects that were not there; `old/v` too, and leaves nothing behind."""
    w, v, other = side.var("w"), side.var("v"), side.var("other")
    if side.renamed:
        deep = side.module(below=side.module(w=w), v=v)
        return side.program(deep=deep, other=other)
    return side.program(old=side.module(v=v), other=other, w=w)


def crossed(side: Side) -> Program:
    """`left` and `right` are swapped whole, and a child of each changes sides as well."""
    w, v = side.var("w", (2,)), side.var("v", (2,))
    x, y = side.var("x"), side.var("y")
    if side.renamed:
        right, left = side.module(w=w, y=y), side.module(v=v, x=x)
    else:
        left, right = side.module(w=w, x=x), side.module(v=v, y=y)
    return side.program(left=left, right=right)


def states(side: Side) -> Program:
    """Hash tables, an iterator, a random generator and Python state, all of other names."""
    tf = side.tf
    lookup = tf.lookup.experimental
    table = lookup.MutableHashTable(tf.string, tf.int64, -1)
    dense = lookup.DenseHashTable(tf.int64, tf.float32, -1.0, empty_key=0, deleted_key=-7)
    generator = tf.random.Generator.from_seed(7 if side.renamed else 42)
    state = tf.train.experimental.PythonState
    iterator = iter(tf.data.Dataset.range(20).batch(2).prefetch(1))

    class Text(state):  # type: ignore[misc, valid-type]
        def __init__(self, text: str) -> None:
            self.text = text

        def serialize(self) -> bytes:
            return self.text.encode()

        def deserialize(self, value: bytes) -> None:
            self.text = value.decode()

    text = Text("" if side.renamed else "epoch 3")
    if not side.renamed:
        table.insert(tf.constant(["a", "b"]), tf.constant([1, 2], tf.int64))
        dense.insert(tf.constant([5, 6], tf.int64), tf.constant([0.5, 0.25]))
        next(iterator)
        next(iterator)
        generator.normal([3])

    def values() -> dict[str, Array]:
        return {
            "table": table.lookup(tf.constant(["a", "b", "c"])).numpy(),
            "dense": dense.lookup(tf.constant([5, 6, 7], tf.int64)).numpy(),
            "generator": generator.normal([2]).numpy(),
            "iterator": next(iterator).numpy(),
            "text": np.array(text.text),
        }

    parts = {
        side("table", "words"): table,
        side("data", "input/data"): iterator,
        "box": side.module(**{side("dense", "hashed"): dense}),
        side("generator", "rng"): generator,
        side("text", "state"): text,
    }
    return Program(tf.train.Checkpoint(**parts), values)


def rooted(side: Side) -> Program:
    """An explicit root object; `blocks/0` moves into a list of another name."""
    block = side.module(w=side.var("w", (2, 2)))
    root = side.module(
        **{side("blocks", "layers"): [block, side.module()], "bias": side.var("bias")}
    )
    root.same = block.w
    return side.program(root, extra=side.var("extra"))


def towered(side: Side, *, inward: bool) -> Program:
    """What the root has, with a legacy optimizer, and what the object `tower` has instead.

    Args:
        side: of the program.
        inward: whether the other form is the one with the tower, not this one.
    """
    tf_keras, _ = keras_families()
    shared = side.var("shared", (2,))
    net = side.module(w=side.var("w", (2, 2)), same=shared)
    optimizer = built(tf_keras.optimizers.legacy.Adam(0.1), [])
    parts = {"net": net, "optimizer": optimizer, "shared": shared, "step": side.var("step")}
    if side.renamed == inward:
        parts = {"tower": side.module(**parts)}
    trained = {"w": net.w, "shared": shared}
    return Program(
        side.tf.train.Checkpoint(**parts),
        lambda: with_slots(side, optimizer, trained),
        trainer(side, optimizer, list(trained.values())),
    )


def stack(side: Side) -> Program:
    """Layers `l0` to `l2` become `layer_0` and so on; in each `attn` becomes `self_attn`."""
    net = side.module(
        **{
            side(f"l{at}", f"layer_{at}"): side.module(
                **{side("attn", "self_attn"): side.module(q=side.var(f"q{at}", (2,)))}
            )
            for at in range(3)
        }
    )
    return side.program(net=net, final=side.var("final"))


def cut(side: Side) -> Program:
    """Tensors that a shard policy cuts: `matrix` becomes `table`, `part/cube` moves to the root."""
    matrix, cube = side.var("matrix", (5, 6)), side.var("cube", (4, 3, 4))
    text = side.var("vector", (100,), "int64")
    if side.renamed:
        return side.program(table=matrix, cube=cube, vector=text)
    return side.program(matrix=matrix, part=side.module(cube=cube), vector=text)


def sharded(side: Side) -> Program:
    """A variable in parts, `net/table`, which becomes `net/embeddings`."""
    from tensorflow.python.distribute.sharded_variable import ShardedVariable

    name = "sharded"
    parts = [
        side.tf.Variable(side.var(f"rows{at}", (rows, 2)).read_value(), name=f"{name}/part_{at}")
        for at, rows in enumerate((3, 2, 1))
    ]
    side.variables = {f"rows{at}": each for at, each in enumerate(parts)}
    table = ShardedVariable(parts, name=name)
    bias = side.var("bias", (2,))
    return side.program(net=side.module(**{side("table", "embeddings"): table, "bias": bias}))
