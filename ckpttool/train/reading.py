"""Values of a restore: read and checked as a whole, then given to their objects.

Large variables are not held twice. Their stored bytes are checked first, and read once more, right
into the memory of the variable, when all else is known to be sound.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ckpttool.bundle.reader import BundleReader
from ckpttool.errors import CkptError

if TYPE_CHECKING:
    from ckpttool.checkpoint.open import Checkpoint
    from ckpttool.tensor.values import Array
    from ckpttool.train.takings import Taking

# Bytes of variables that are held beside the variables themselves.
_MOST_HELD = 64 << 20


class SoundValues:
    """Values that are known to be sound.

    Args:
        takings: who takes them.

    Raises:
        CkptError: they cannot be read, or are damaged.
    """

    def __init__(self, takings: Sequence[Taking]) -> None:
        self._held: dict[tuple[int, str], Array] = {}
        self._sources = {id(taking.load.source): taking.load.source for taking in takings}
        room = _MOST_HELD
        wanted: dict[int, list[str]] = {each: [] for each in self._sources}
        try:
            for load, _, found, _, keys, _ in takings:
                source = load.source
                for name, key in keys.items():
                    buffer = None if found is None else found._trackable_buffer(name)
                    size = 0 if buffer is None else buffer.nbytes
                    if size > room and buffer is not None and _goes_into(source, key, buffer):
                        source.bundle.check(key)
                    else:
                        room -= size
                        wanted[id(source)].append(key)
            for each, listed in wanted.items():
                reader = self._sources[each].reader
                for key, value in reader.read_many(listed):
                    self._held[each, key] = value
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
        load, _, found, _, keys, give = taking
        source = load.source
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


def _goes_into(source: Checkpoint, key: str, buffer: Array) -> bool:
    reader = source.reader
    return isinstance(reader, BundleReader) and buffer.shape == reader.dtype_and_shape(key)[1]


def _is_variable(taking: Taking) -> bool:
    return taking.found is not None and not taking.found._trackable_any_name
