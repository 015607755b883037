"""Values of a restore: read and checked as a whole, then given to their objects.

Large variables are not held twice. Their stored bytes are checked first, and read once more, right
into the memory of the variable, when all else is known to be sound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ckpttool.bundle.reader import BundleReader
from ckpttool.errors import CkptError

if TYPE_CHECKING:
    from ckpttool.checkpoint.open import Checkpoint
    from ckpttool.tensor.values import Array
    from ckpttool.train.trackable import Trackable, ValueSpec

# Bytes of variables that are held beside the variables themselves.
_MOST_HELD = 64 << 20


def _assign(found: Trackable, values: Mapping[str, Array]) -> None:
    found._trackable_assign(values)


class Taking(NamedTuple):
    """What an object takes: names of its values and the keys of their tensors.

    Attributes:
        source: the checkpoint.
        number: of the load.
        found: the object; None for a slot variable that is still to be made.
        path: of the object in the checkpoint.
        values: what it takes under each name; what is not here may be anything.
        keys: the key for each name.
        give: gives values by name to the object.
    """

    source: Checkpoint
    number: int
    found: Trackable | None
    path: str
    values: Mapping[str, ValueSpec]
    keys: Mapping[str, str]
    give: Callable[[Trackable, Mapping[str, Array]], None] = _assign


class SoundValues:
    """Values that are known to be sound.

    Args:
        takings: who takes them.

    Raises:
        CkptError: they cannot be read, or are damaged.
    """

    def __init__(self, takings: Sequence[Taking]) -> None:
        self._held: dict[tuple[int, str], Array] = {}
        self._sources = {id(taking.source): taking.source for taking in takings}
        room = _MOST_HELD
        try:
            for source, _, found, _, _, keys, _ in takings:
                reader = source.reader
                for name, key in keys.items():
                    buffer = None if found is None else found._trackable_buffer(name)
                    fits = buffer is not None and buffer.shape == reader.dtype_and_shape(key)[1]
                    size = buffer.nbytes if buffer is not None and fits else 0
                    if size > room and isinstance(reader, BundleReader):
                        reader.check(key)
                    else:
                        room -= size
                        self._held[id(source), key] = reader.read(key)
        finally:
            self._close()

    def assign(self, takings: Iterable[Taking]) -> None:
        """Give the values to their objects: states that run code of the program first.

        Raises:
            CkptError: what was sound before is not any more. Some variables have got their values.
        """
        try:
            for taking in sorted(takings, key=_is_variable):
                self._give(taking)
        finally:
            self._close()

    def _give(self, taking: Taking) -> None:
        source, _, found, _, _, keys, give = taking
        if found is None:
            return
        held = {}
        for name, key in keys.items():
            value = self._held.get((id(source), key))
            buffer = found._trackable_buffer(name) if value is None else None
            if value is not None:
                held[name] = value
            elif buffer is not None and isinstance(source.reader, BundleReader):
                try:
                    source.reader.read_into(key, buffer)
                except CkptError as error:
                    error.message += "; it changed meanwhile, and the program is restored in part"
                    raise
        if held or not keys:
            give(found, held)

    def _close(self) -> None:
        # A load may wait for as long as the program runs. A bundle opens its files anew.
        for source in self._sources.values():
            if isinstance(source.reader, BundleReader):
                source.reader.close()


def _is_variable(taking: Taking) -> bool:
    return taking.found is not None and not taking.found._trackable_any_name
