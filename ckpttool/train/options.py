"""Options of saving and restoring, with TensorFlow's names."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

Callback = Callable[..., object]


class CheckpointOptions:
    """How to save and restore.

    Args:
        experimental_io_device: accepted; there are no devices.
        experimental_enable_async_checkpoint: an older name of `enable_async`.
        experimental_write_callbacks: functions to call after the checkpoint is written and before
            it is named as the latest, with its path or without an argument.
        enable_async: write in a thread; `save` returns as soon as the values are copied.
        experimental_skip_slot_variables: leave out slot variables when restoring.
        experimental_sharding_callback: accepted; there is one data shard.

    Raises:
        ValueError: a callback takes more than one argument.
    """

    def __init__(
        self,
        experimental_io_device: str | None = None,
        experimental_enable_async_checkpoint: bool = False,
        experimental_write_callbacks: Sequence[Callback] | None = None,
        enable_async: bool = False,
        experimental_skip_slot_variables: bool = False,
        experimental_sharding_callback: Any = None,
    ) -> None:
        self.experimental_io_device = experimental_io_device
        self.enable_async = experimental_enable_async_checkpoint or enable_async
        self.experimental_enable_async_checkpoint = self.enable_async
        self.experimental_skip_slot_variables = experimental_skip_slot_variables
        self.experimental_sharding_callback = experimental_sharding_callback
        self.experimental_write_callbacks = experimental_write_callbacks
        for callback in experimental_write_callbacks or ():
            if len(inspect.signature(callback).parameters) > 1:
                raise ValueError(f"a write callback takes the path or nothing: {callback!r}")


def call_after_writing(options: CheckpointOptions | None, path: str) -> None:
    """Call the write callbacks of a save; what they raise comes out of it."""
    for callback in (options and options.experimental_write_callbacks) or ():
        callback(*[path][: len(inspect.signature(callback).parameters)])
