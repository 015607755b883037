"""Drafting a map to PyTorch: a proposal for each tensor, from names and shapes alone.

A checkpoint does not record what a layer computes, so a draft is for people to review. There is no
proposal where names and shapes leave room for another meaning: gates of recurrent cells, depthwise
and einsum kernels, variables that several layers share.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ckpttool.checkpoint.nearest import listed, quoted
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.errors import CkptError, SelectionError
from ckpttool.surgery.maps.reading import map_text, tensor_rule
from ckpttool.surgery.rules import TensorRule
from ckpttool.tensor.shape import Shape

DRAFT_TABLES = ("torch",)

_KERNELS = ("kernel", "weights")
_BIASES = ("bias", "biases")
# What layers with one meaning for it call a variable -> what PyTorch calls it, and the rule.
_PLAIN = {
    "embeddings": ("weight", "embeddings"),
    "gamma": ("weight", "gamma of a normalization"),
    "beta": ("bias", "beta of a normalization"),
    "moving_mean": ("running_mean", "moving mean of a batch normalization"),
    "moving_variance": ("running_var", "moving variance of a batch normalization"),
}
# TensorFlow has the spatial dimensions first, input and output last; PyTorch the other way round.
_ORDERS = {
    2: ("dense kernel", (1, 0)),
    3: ("kernel of a 1D convolution", (2, 1, 0)),
    4: ("kernel of a 2D convolution", (3, 2, 0, 1)),
    5: ("kernel of a 3D convolution", (4, 3, 0, 1, 2)),
}
_LEAVES = frozenset((*_KERNELS, *_BIASES, *_PLAIN))
_RECURRENT = re.compile(r"lstm|rnn|(?<![a-z])gru|recurrent", re.IGNORECASE)
_DEPTHWISE = re.compile(r"depthwise|separable|pointwise", re.IGNORECASE)
_EINSUM = re.compile(r"einsum|(^|/)_?(query|key|value|attention_output)(_dense)?/", re.IGNORECASE)
_CONVOLUTION = re.compile(r"conv", re.IGNORECASE)
_EMBEDDING = re.compile(r"embed", re.IGNORECASE)
_TRANSPOSED = re.compile(r"transpose|deconv", re.IGNORECASE)
_SQUARE = "square: without the permutation the shape would be the same"


@dataclass(frozen=True, slots=True)
class MapDraft:
    """A map for people to review.

    Attributes:
        lines: the members of each line of the map.
        unmatched: name of each tensor without a line, and the reason.
        table: what drafted it.
    """

    lines: tuple[Mapping[str, object], ...]
    unmatched: tuple[tuple[str, str], ...]
    table: str = "torch"

    @property
    def text(self) -> str:
        """The file."""
        rest = [{"from": name, "reason": reason} for name, reason in self.unmatched]
        return map_text(self.lines, table=self.table, **({"unmatched": rest} if rest else {}))

    @property
    def rules(self) -> tuple[TensorRule, ...]:
        """The map, as it will be read."""
        return tuple(map(tensor_rule, self.lines))

    @property
    def notes(self) -> tuple[str, ...]:
        """What there is to say of it, in words."""
        square = listed(str(line["from"]) for line in self.lines if "note" in line)
        notes = [f"a draft of {len(self.lines)} lines, to be reviewed before --map takes it"]
        notes += [f"square, so that a wrong order has the same shape: {square}"] if square else []
        if self.unmatched:
            notes.append(f"left out: {self._reasons}")
        return tuple(notes)

    def require_whole(self) -> None:
        """Check that every tensor has a line.

        Raises:
            SelectionError: some have none; the message has the reasons.
        """
        if self.unmatched:
            raise SelectionError(
                f"no proposal for {self._reasons}; --skip-unmatched drafts the others"
            )

    @property
    def _reasons(self) -> str:
        by_reason: dict[str, list[str]] = {}
        for name, reason in self.unmatched:
            by_reason.setdefault(reason, []).append(name)
        return "; ".join(f"{quoted(names)} ({reason})" for reason, names in by_reason.items())


@dataclass(slots=True)
class LayerVariable:
    """A tensor as a variable of a layer.

    Attributes:
        key: its key.
        shape: its shape.
        name: the name that says most of it.
        names: all its names.
        holders: the objects that have it as a variable of a layer, in an object-based checkpoint.
        paths: its object paths.
    """

    key: str
    shape: Shape
    name: str
    names: tuple[str, ...]
    holders: tuple[int, ...] = ()
    paths: tuple[str, ...] = ()

    @property
    def scope(self) -> str:
        """The name without its last part."""
        return self.name.rpartition("/")[0]

    @property
    def leaf(self) -> str:
        """The last part of the name."""
        return _leaf(self.name)

    def speaks_of(self, pattern: re.Pattern[str]) -> bool:
        """Tell whether a pattern is found in a name."""
        return any(pattern.search(name) for name in self.names)


def draft_for_torch(ckpt: Checkpoint, keys: Iterable[str]) -> MapDraft:
    """Draft a map that gives tensors the names and layouts of PyTorch.

    Args:
        ckpt: the checkpoint.
        keys: of the tensors.
    """
    variables = [layer_variable(ckpt, key) for key in keys]
    scopes: dict[str, dict[str, LayerVariable]] = {}
    for each in variables:
        scopes.setdefault(each.scope, {})[each.leaf] = each
    found: list[dict[str, object]] = []
    unmatched: list[tuple[str, str]] = []
    for each in variables:
        proposal = _propose(each, scopes[each.scope])
        if isinstance(proposal, str):
            unmatched.append((each.name, proposal))
        else:
            found.append(proposal)
    taken = Counter(str(line["to"]) for line in found)
    for line in found:
        if taken[str(line["to"])] > 1:
            reason = f"another tensor would be called '{line['to']}' as well"
            unmatched.append((str(line["from"]), reason))
    lines = tuple(line for line in found if taken[str(line["to"])] == 1)
    return MapDraft(lines, tuple(unmatched))


def _propose(
    variable: LayerVariable, siblings: Mapping[str, LayerVariable]
) -> dict[str, object] | str:
    """Return a line of the map, or the reason why there is none."""
    leaf = variable.leaf
    if len(variable.holders) > 1:
        return f"{len(variable.holders)} layers share it"
    if leaf in _PLAIN:
        name, rule = _PLAIN[leaf]
        return _line(variable, name, rule)
    if leaf in _KERNELS:
        return _propose_kernel(variable, siblings)
    if leaf in _BIASES:
        kernel = next((siblings[name] for name in _KERNELS if name in siblings), None)
        if kernel is None:
            return "a bias without a kernel beside it"
        of_kernel = _propose_kernel(kernel, siblings)
        if isinstance(of_kernel, str):
            return of_kernel
        return _line(variable, "bias", "bias")
    return f"no rule for '{leaf}'"


def _propose_kernel(
    kernel: LayerVariable, siblings: Mapping[str, LayerVariable]
) -> dict[str, object] | str:
    shape = kernel.shape
    bias = next((siblings[name] for name in _BIASES if name in siblings), None)
    if kernel.speaks_of(_RECURRENT) or "recurrent_kernel" in siblings:
        return "the order of the gates of a recurrent cell is not known"
    if kernel.speaks_of(_DEPTHWISE):
        return "a depthwise or separable convolution"
    if len(shape) not in _ORDERS:
        return f"a kernel of {len(shape)} dimensions"
    rule, order = _ORDERS[len(shape)]
    if kernel.speaks_of(_EINSUM) and (len(shape) > 2 or "einsum" in kernel.name.lower()):
        return "the dimensions of an einsum kernel are not known"
    outputs = None if bias is None else bias.shape
    if len(shape) > 2:
        convolution = kernel.speaks_of(_CONVOLUTION)
        if kernel.speaks_of(_TRANSPOSED):
            rule = f"{rule}, transposed"
            shape = (*shape[:-2], shape[-1], shape[-2])
        elif len(shape) == 3 and not convolution:
            return "a kernel of 3 dimensions that may be einsum"
        elif outputs is None and (shape[-1] == 1 or not convolution):
            return "a kernel without a bias that may be depthwise or einsum"
    elif outputs is None and _EMBEDDING.search(kernel.scope.rpartition("/")[2]):
        return "a kernel that may be a table of embeddings"
    if outputs is not None and outputs != shape[-1:]:
        return f"a bias of shape {list(outputs)} beside a kernel of shape {list(kernel.shape)}"
    return _line(kernel, "weight", f"{rule} {list(order)}", order)


def _line(
    variable: LayerVariable, name: str, rule: str, order: Sequence[int] | None = None
) -> dict[str, object]:
    path = [part.replace(".", "_") for part in variable.scope.split("/") if part]
    line: dict[str, object] = {
        "from": variable.name,
        "to": ".".join((*path, name)),
        "shape": list(variable.shape),
    }
    if order is not None:
        line["permute"] = list(order)
    line["rule"] = rule
    if order is not None and variable.shape[-1] == variable.shape[-2]:
        line["note"] = _SQUARE
    return line


def layer_variable(ckpt: Checkpoint, key: str) -> LayerVariable:
    """Return a tensor with the name that says most."""
    own, *paths = ckpt.names_of(key)
    full = ckpt.variable_names.get(key)
    names = (*paths, *(() if full is None else (full,)), own)
    shape = ckpt.entries[key].shape
    telling = [path for path in paths if _leaf(path) in _LEAVES]
    # Lists of layers, and what Keras keeps for itself, say nothing to people.
    candidates = [path for path in telling if not _is_private(path)]
    if full is not None and _leaf(full) in _LEAVES:
        candidates.append(full)
    candidates += telling
    candidates += [path for path in paths if not _leaf(path).isdigit()] or paths[:1]
    name = next((each for each in candidates if _names(ckpt, each, key)), own)
    graph = None if ckpt.graph_names is None else ckpt.object_graph
    holders: set[int] = set()
    if graph is not None:
        spoken = telling or [path for path in paths if not _leaf(path).isdigit()]
        found = (graph.node_at(path.rpartition("/")[0]) for path in spoken)
        holders = {node_id for node_id in found if node_id is not None}
    return LayerVariable(key, shape, name, names, tuple(sorted(holders)), tuple(paths))


def _names(ckpt: Checkpoint, name: str, key: str) -> bool:
    """Tell whether a name means this tensor and no other."""
    try:
        return ckpt.resolve(name) == key
    except CkptError:
        return False


def _leaf(name: str) -> str:
    """Return the last part of a name; some versions of Keras put an underscore before it."""
    return name.rpartition("/")[2].lstrip("_")


def _is_private(path: str) -> bool:
    parts = path.split("/")[:-1]
    return any(part.startswith(("_", "layer_with_weights-")) for part in parts)
