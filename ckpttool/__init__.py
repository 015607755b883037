"""Look into TensorFlow checkpoints and operate on them, without TensorFlow.

    with ckpttool.open_checkpoint("tf_ckpts") as ckpt:
        kernel = ckpt["net/l1/kernel"]
    ckpttool.save_checkpoint("out/ckpt-1", {"w": kernel})

Importing this package imports nothing else; each name is resolved on first use.
"""

from __future__ import annotations

TYPE_CHECKING = False  # that of `typing`, whose import takes most of what this one would
if TYPE_CHECKING:
    from ckpttool.checkpoint.open import Checkpoint, open_checkpoint
    from ckpttool.checkpoint.save import save_checkpoint
    from ckpttool.checkpoint.tf_train import (
        CheckpointReader,
        checkpoints_iterator,
        get_checkpoint_state,
        latest_checkpoint,
        list_variables,
        load_checkpoint,
        load_variable,
    )
    from ckpttool.errors import CkptError
    from ckpttool.query.diff.checkpoints import diff
    from ckpttool.query.verify.addresses import verify
    from ckpttool.tensor.variants import VariantElement

__version__ = "0.1.0"

__all__ = [
    "Checkpoint",
    "CheckpointReader",
    "CkptError",
    "VariantElement",
    "__version__",
    "checkpoints_iterator",
    "diff",
    "get_checkpoint_state",
    "latest_checkpoint",
    "list_variables",
    "load_checkpoint",
    "load_variable",
    "open_checkpoint",
    "save_checkpoint",
    "verify",
]

_HOMES = {
    "Checkpoint": "ckpttool.checkpoint.open",
    "CheckpointReader": "ckpttool.checkpoint.tf_train",
    "CkptError": "ckpttool.errors",
    "VariantElement": "ckpttool.tensor.variants",
    "checkpoints_iterator": "ckpttool.checkpoint.tf_train",
    "diff": "ckpttool.query.diff.checkpoints",
    "get_checkpoint_state": "ckpttool.checkpoint.tf_train",
    "latest_checkpoint": "ckpttool.checkpoint.tf_train",
    "list_variables": "ckpttool.checkpoint.tf_train",
    "load_checkpoint": "ckpttool.checkpoint.tf_train",
    "load_variable": "ckpttool.checkpoint.tf_train",
    "open_checkpoint": "ckpttool.checkpoint.open",
    "save_checkpoint": "ckpttool.checkpoint.save",
    "verify": "ckpttool.query.verify.addresses",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
