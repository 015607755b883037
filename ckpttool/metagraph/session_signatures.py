"""Signatures of a SessionBundle export as those of a SavedModel.

    default, regression or classification           serving_default
    named "inputs" and "outputs", both generic      serving_default, or if the default is one of
                                                    the above serving_default_from_named
    named, regression or classification             under its name
    any other generic one, placeholders in it are   serving_default, or under its name
    inputs and all else outputs

The others are returned as unmapped.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ckpttool.metagraph.session_bundle import ExportSignature, SessionBundle
from ckpttool.metagraph.tensors import GraphTensors

DEFAULT_KEY = "serving_default"
FROM_NAMED_KEY = "serving_default_from_named"
PREDICT = "tensorflow/serving/predict"
CLASSIFY = "tensorflow/serving/classify"
REGRESS = "tensorflow/serving/regress"
_PAIR = ("inputs", "outputs")
# TensorFlow runs signatures of such names when it loads a SavedModel.
_RESERVED = "__saved_model"

_Tensors = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class MappedSignature:
    """A signature of the SavedModel.

    Attributes:
        key: in the SavedModel.
        method: the API of TensorFlow Serving that calls it.
        origin: the signature of the export, in words.
        inputs: each tensor's name in the signature and its full name in the graph.
        outputs: likewise.
    """

    key: str
    method: str
    origin: str
    inputs: _Tensors
    outputs: _Tensors


@dataclass(frozen=True, slots=True)
class UnmappedSignature:
    """A signature of the export without a form in a SavedModel.

    Attributes:
        name: among the named signatures; None for the default one.
        kind: `"regression"`, `"classification"`, `"generic"` or `"unknown"`.
        reason: why, in words.
    """

    name: str | None
    kind: str
    reason: str


class _UnmappableError(Exception):
    """Why a signature cannot be mapped."""


def map_signatures(
    bundle: SessionBundle, tensors: GraphTensors
) -> tuple[tuple[MappedSignature, ...], tuple[UnmappedSignature, ...]]:
    """Return the signatures of the SavedModel, and the unmapped ones of the export."""
    mapped: dict[str, MappedSignature] = {}
    unmapped: list[UnmappedSignature] = []
    default, named = bundle.default, {each.name: each for each in bundle.named}
    pair = _pair(named, tensors, has_default=default is not None and default.kind != "generic")

    def add(signature: ExportSignature, key: str) -> None:
        try:
            if pair is not None and key == pair.key:
                raise _UnmappableError(f"the key '{key}' is for {pair.origin}")
            if key in mapped:
                raise _UnmappableError(f"the key '{key}' is for {mapped[key].origin}")
            if not key or key.startswith(_RESERVED):
                raise _UnmappableError(f"a SavedModel cannot have the key '{key}'")
            mapped[key] = _mapped(signature, key, tensors)
        except _UnmappableError as error:
            unmapped.append(UnmappedSignature(signature.name, signature.kind, str(error)))

    if default is not None:
        add(default, DEFAULT_KEY)
    if pair is not None:
        mapped[pair.key] = pair
    for signature in bundle.named:
        if pair is None or signature.name not in _PAIR:
            add(signature, signature.name or "")
    return tuple(mapped.values()), tuple(unmapped)


def _pair(
    named: dict[str | None, ExportSignature], tensors: GraphTensors, *, has_default: bool
) -> MappedSignature | None:
    """Return the signature made of the named signatures "inputs" and "outputs", if any."""
    inputs, outputs = (named.get(name) for name in _PAIR)
    if inputs is None or outputs is None or {inputs.kind, outputs.kind} != {"generic"}:
        return None
    try:
        return MappedSignature(
            FROM_NAMED_KEY if has_default else DEFAULT_KEY,
            PREDICT,
            "signatures 'inputs' and 'outputs'",
            _resolved(inputs.tensors, tensors),
            _resolved(outputs.tensors, tensors),
        )
    except _UnmappableError:
        return None  # each of them is then mapped by itself


def _mapped(signature: ExportSignature, key: str, tensors: GraphTensors) -> MappedSignature:
    if signature.kind == "unknown":
        raise _UnmappableError("its kind is not known")
    if signature.kind == "generic":
        inputs, outputs = _split(signature, tensors)
        return MappedSignature(key, PREDICT, str(signature), inputs, outputs)
    (_, given), *results = signature.tensors
    inputs = _resolved((("inputs", given),), tensors)
    if signature.kind == "regression":
        outputs = _resolved((("outputs", name) for _, name in results), tensors)
        return MappedSignature(key, REGRESS, str(signature), inputs, outputs)
    outputs = _resolved(((role, name) for role, name in results if name), tensors)
    if not outputs:
        raise _UnmappableError("it names neither classes nor scores")
    return MappedSignature(key, CLASSIFY, str(signature), inputs, outputs)


def _resolved(bindings: Iterable[tuple[str, str]], tensors: GraphTensors) -> _Tensors:
    found = []
    for role, name in bindings:
        full = tensors.full_name(name)
        if not name or not role:
            raise _UnmappableError(f"it names no tensor for '{role}'")
        if full is None:
            raise _UnmappableError(f"the graph has no tensor '{name}'")
        found.append((role, full))
    return tuple(found)


def _split(signature: ExportSignature, tensors: GraphTensors) -> tuple[_Tensors, _Tensors]:
    """Tell the inputs of a generic signature from its outputs."""
    found = _resolved(signature.tensors, tensors)
    inputs = tuple(item for item in found if tensors.is_placeholder(item[1]))
    outputs = tuple(item for item in found if not tensors.is_placeholder(item[1]))
    if not inputs or not outputs:
        missing = "placeholder to be its input" if not inputs else "tensor to be its output"
        raise _UnmappableError(f"it has no {missing}")
    unfed = tensors.unfed([name for _, name in outputs], [name for _, name in inputs])
    if unfed:
        raise _UnmappableError(f"its outputs need the placeholder '{unfed[0]}', which it lacks")
    return inputs, outputs
