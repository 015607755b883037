"""Casting tensors: the same numbers in another dtype, rounded once, to nearest even."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ckpttool.checkpoint.nearest import listed, nearest_names, quoted
from ckpttool.errors import SelectionError, SurgeryError
from ckpttool.surgery.choosing import chosen_keys
from ckpttool.surgery.plan import Plan, PlannedTensor
from ckpttool.surgery.values import NewValue, ValueAction, ValueSource, value_of
from ckpttool.tensor.casting import Cast, can_cast, castable_names, sort_of
from ckpttool.tensor.dtypes import DType, dtype_of_name
from ckpttool.tensor.shape import Shape

# As NumPy and other tools call them.
_ALIASES = {"half": "float16", "float": "float32", "double": "float64"}


@dataclass(frozen=True, slots=True, eq=False)
class CastValue:
    """A value in another dtype.

    Attributes:
        value: the value before.
        dtype: the new dtype.
        saturate: whether what is out of range becomes the nearest that the dtype has.
    """

    value: NewValue
    dtype: DType
    saturate: bool
    action: ValueAction = "cast"

    @property
    def shape(self) -> Shape:
        """That of the value before."""
        return self.value.shape

    @property
    def sources(self) -> tuple[ValueSource, ...]:
        """Those of the value before."""
        return self.value.sources

    def chunks(self) -> Iterator[memoryview | bytes]:
        """Yield the bytes in the new dtype.

        Raises:
            SurgeryError: an element is out of range, or the dtype has no such number.
            CkptError: the value before cannot be read.
        """
        cast = Cast(self.value.dtype, self.dtype, saturate=self.saturate)
        for chunk in self.value.chunks():
            yield cast.piece(chunk)


def cast(plan: Plan, dtypes: Mapping[str, str], *, saturate: bool = False) -> Plan:
    """Return the plan with other dtypes for some tensors.

    Numbers are rounded once, to nearest and ties to even. A number that the dtype does not have is
    an error when it is read: too large, a fraction for an integer, NaN for an integer. A pattern
    for a dtype of floats casts floats, and leaves other tensors that it selects as they are; if it
    selects no floats, it casts what it selects. It is the same for integers and complex numbers.

    Args:
        plan: what to start from. A tensor that has a new value keeps it, in the other dtype.
        dtypes: pattern -> TensorFlow's name of the dtype.
        saturate: make what is out of range the nearest that the dtype has.

    Raises:
        SelectionError: a pattern selects nothing to cast, or there is no such dtype.
        SurgeryError: two patterns give a tensor different dtypes, or it cannot be cast.
    """
    wanted: dict[str, tuple[str, DType]] = {}
    left: dict[str, None] = {}
    tensors = {tensor.source_key: tensor for tensor in plan.tensors}
    for pattern, name in dtypes.items():
        target = _dtype(pattern, name)
        chosen = chosen_keys(plan, (pattern,))
        found = [tensors[key] for key in tensors if key in chosen]
        sort = sort_of(target)
        same = [each for each in found if sort_of(each.dtype) == sort]
        if same:
            left |= dict.fromkeys(each.key for each in found if sort_of(each.dtype) != sort)
        elif not found:
            raise SelectionError(f"what '{pattern}' selects is dropped", path=plan.source.prefix)
        for tensor in same or found:
            other, before = wanted.get(tensor.source_key, ("", target))
            if before != target:
                raise SurgeryError(
                    f"'{other}' makes it {before}, and '{pattern}' makes it {target}",
                    path=plan.source.prefix,
                    key=tensor.source_key,
                )
            wanted[tensor.source_key] = pattern, target
            _refuse_impossible(plan, tensor, target)
    changing = {key: target for key, (_, target) in wanted.items() if target != tensors[key].dtype}
    if wanted and not changing:
        (_, target), *_ = wanted.values()
        raise SelectionError(f"nothing to cast: already {target}", path=plan.source.prefix)
    values = {
        key: CastValue(value_of(plan.source, tensors[key]), target, saturate)
        for key, target in changing.items()
    }
    return plan.with_values(values).with_notes(*_notes(plan, changing, list(left)))


def parse_cast(text: str) -> tuple[str, str]:
    """Return pattern and dtype of `PATTERN=DTYPE`.

    Raises:
        SelectionError: it is not of that form.
    """
    pattern, _, name = text.rpartition("=")
    if not pattern or not name:
        raise SelectionError(f"'{text}' is not PATTERN=DTYPE, such as 'net/**=bfloat16'")
    return pattern, name


def _dtype(pattern: str, name: str) -> DType:
    names = castable_names()
    name = _ALIASES.get(name, name)
    if name not in names:
        near = nearest_names(name, names) or names
        raise SelectionError(
            f"'{pattern}={name}': nothing can be cast to that; dtypes: {quoted(near)}"
        )
    return dtype_of_name(name)


def _refuse_impossible(plan: Plan, tensor: PlannedTensor, target: DType) -> None:
    if tensor.damage is not None:
        raise tensor.damage
    if not can_cast(tensor.dtype, target):
        raise SurgeryError(
            f"{tensor.dtype} cannot be cast to {target}",
            path=plan.source.prefix,
            key=tensor.source_key,
        )


def _notes(plan: Plan, changing: Mapping[str, DType], left: list[str]) -> list[str]:
    """Return what the user should know of a cast."""
    notes = []
    if changing:
        notes.append(
            "TensorFlow restores a tensor only into a variable of the same dtype: the program must "
            "have the new ones"
        )
    if left:
        names = listed([plan.short_name(key) for key in left])
        notes.append(f"of another sort, left as they are: {names}")
    unjoinable = [
        plan.short_name(tensor.key)
        for tensor in plan.tensors
        if tensor.slices and not changing.get(tensor.source_key, tensor.dtype).joinable
        if tensor.source_key in changing
    ]
    if unjoinable:
        notes.append(
            f"stored as wholes: {listed(unjoinable)}; a program that has them partitioned cannot "
            "restore them, since TensorFlow cannot cut tensors of that dtype"
        )
    return notes
