"""The start of `ckpt` and of `python -m ckpttool`.

Importing the commands takes a tenth of a second. An interrupt in that time, or too little memory
for it, is reported in one line, as later.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False  # not from `typing`: an interrupt during its import would show a traceback
if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn

# The address space that importing NumPy needs. With less, one of its libraries ends the process
# with the exit code of a negative answer.
_NUMPY = 96 << 20


def script() -> NoReturn:
    """Run `ckpt` as a program of its own."""
    # OpenBLAS, which comes with NumPy, starts a thread for each processor; none is needed.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupted)
    try:
        import resource

        if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
            sys.meta_path.insert(0, _Room())
    except ImportError:  # Windows, which has no such limit
        pass
    try:
        from ckpttool.cli.main import script as run
    except MemoryError:
        _end(b"out of memory", 2)
    except ImportError as error:
        if "map segment" not in str(error) and "allocate memory" not in str(error):
            raise
        _end(b"out of memory", 2)
    run()


class _Room:
    """A finder that finds no module, but checks for memory before NumPy is imported."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Raise MemoryError if there is too little for NumPy."""
        if name == "numpy":
            import mmap

            try:
                mmap.mmap(-1, _NUMPY).close()
            except OSError as error:
                raise MemoryError from error


def _interrupted(number: int, frame: FrameType | None) -> NoReturn:
    _end(b"interrupted", 128 + number)


def _end(message: bytes, code: int) -> NoReturn:
    try:
        os.write(2, b"ckpt: " + message + b"\n")
    finally:
        os._exit(code)


if __name__ == "__main__":
    script()
