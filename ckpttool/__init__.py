"""Look into TensorFlow checkpoints and operate on them, without TensorFlow.

    import ckpttool as ct

    with ct.open_checkpoint("tf_ckpts") as ckpt:
        kernel = ckpt["net/l1/kernel"]
    ct.save_checkpoint("out/ckpt-1", {"w": kernel})
    ct.rename("tf_ckpts", "out/ckpt-2", {"net": "model"})

Each command of `ckpt` has a function here, `surgery` composes changes, `train` saves and restores
programs on NumPy, and the functions of `tf.train` that read checkpoints have their names and
arguments. Paths are `str` or `os.PathLike`.
Importing this package imports nothing else; each name is resolved on first use.
"""

from __future__ import annotations

TYPE_CHECKING = False  # that of `typing`, whose import takes most of what this one would
if TYPE_CHECKING:
    from ckpttool import surgery, train
    from ckpttool.api.average import average
    from ckpttool.api.check import Check, check
    from ckpttool.api.convert_legacy import Conversions, convert_legacy
    from ckpttool.api.diff import CheckpointDiff, diff
    from ckpttool.api.diff_series import CheckpointSeries, diff_series
    from ckpttool.api.draw import draw
    from ckpttool.api.edit import edit
    from ckpttool.api.export import Export, export
    from ckpttool.api.export_meta_json import GraphExport, export_meta_json
    from ckpttool.api.gc import Swept, gc
    from ckpttool.api.import_checkpoint import Import, import_checkpoint
    from ckpttool.api.match import Match, match
    from ckpttool.api.open import OpenCheckpoint, Tensor, open_checkpoint
    from ckpttool.api.outcome import Outcome, Outcomes
    from ckpttool.api.prune import prune
    from ckpttool.api.rename import rename
    from ckpttool.api.report import CheckpointReport, report
    from ckpttool.api.verify import Verification, verify
    from ckpttool.checkpoint.open import Checkpoint
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
    from ckpttool.errors import (
        ChangedError,
        ChecksumError,
        CkptError,
        CorruptError,
        DestinationError,
        FileAccessError,
        InvalidTensorError,
        KeyCollisionError,
        MissingFileError,
        MissingKeyError,
        NotFoundError,
        SelectionError,
        SurgeryError,
        TruncatedError,
        UnsupportedError,
    )
    from ckpttool.tensor.variants import VariantElement

__version__ = "0.1.0"

__all__ = [
    "ChangedError",
    "Check",
    "Checkpoint",
    "CheckpointDiff",
    "CheckpointReader",
    "CheckpointReport",
    "CheckpointSeries",
    "ChecksumError",
    "CkptError",
    "Conversions",
    "CorruptError",
    "DestinationError",
    "Export",
    "FileAccessError",
    "GraphExport",
    "Import",
    "InvalidTensorError",
    "KeyCollisionError",
    "Match",
    "MissingFileError",
    "MissingKeyError",
    "NotFoundError",
    "OpenCheckpoint",
    "Outcome",
    "Outcomes",
    "SelectionError",
    "SurgeryError",
    "Swept",
    "Tensor",
    "TruncatedError",
    "UnsupportedError",
    "VariantElement",
    "Verification",
    "__version__",
    "average",
    "check",
    "checkpoints_iterator",
    "convert_legacy",
    "diff",
    "diff_series",
    "draw",
    "edit",
    "export",
    "export_meta_json",
    "gc",
    "get_checkpoint_state",
    "import_checkpoint",
    "latest_checkpoint",
    "list_variables",
    "load_checkpoint",
    "load_variable",
    "match",
    "open_checkpoint",
    "prune",
    "rename",
    "report",
    "save_checkpoint",
    "surgery",
    "train",
    "verify",
]

_HOMES = {
    "ChangedError": "errors",
    "Check": "api.check",
    "Checkpoint": "checkpoint.open",
    "CheckpointDiff": "api.diff",
    "CheckpointReader": "checkpoint.tf_train",
    "CheckpointSeries": "api.diff_series",
    "CheckpointReport": "api.report",
    "ChecksumError": "errors",
    "CkptError": "errors",
    "Conversions": "api.convert_legacy",
    "CorruptError": "errors",
    "DestinationError": "errors",
    "Export": "api.export",
    "FileAccessError": "errors",
    "GraphExport": "api.export_meta_json",
    "Import": "api.import_checkpoint",
    "InvalidTensorError": "errors",
    "KeyCollisionError": "errors",
    "Match": "api.match",
    "MissingFileError": "errors",
    "MissingKeyError": "errors",
    "NotFoundError": "errors",
    "OpenCheckpoint": "api.open",
    "Outcome": "api.outcome",
    "Outcomes": "api.outcome",
    "SelectionError": "errors",
    "SurgeryError": "errors",
    "Swept": "api.gc",
    "Tensor": "api.open",
    "TruncatedError": "errors",
    "UnsupportedError": "errors",
    "VariantElement": "tensor.variants",
    "Verification": "api.verify",
    "average": "api.average",
    "check": "api.check",
    "checkpoints_iterator": "checkpoint.tf_train",
    "convert_legacy": "api.convert_legacy",
    "diff": "api.diff",
    "diff_series": "api.diff_series",
    "draw": "api.draw",
    "edit": "api.edit",
    "export": "api.export",
    "export_meta_json": "api.export_meta_json",
    "gc": "api.gc",
    "get_checkpoint_state": "checkpoint.tf_train",
    "import_checkpoint": "api.import_checkpoint",
    "latest_checkpoint": "checkpoint.tf_train",
    "list_variables": "checkpoint.tf_train",
    "load_checkpoint": "checkpoint.tf_train",
    "load_variable": "checkpoint.tf_train",
    "match": "api.match",
    "open_checkpoint": "api.open",
    "prune": "api.prune",
    "rename": "api.rename",
    "report": "api.report",
    "save_checkpoint": "checkpoint.save",
    "verify": "api.verify",
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in ("surgery", "train"):
        return import_module(f"{__name__}.{name}")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import ckpttool.display

    ckpttool.display.view = _notebook_view
    value: object = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def _notebook_view(answer: object) -> str | None:
    import ckpttool.render.notebook.view

    return ckpttool.render.notebook.view.html_of(answer)


def __dir__() -> list[str]:
    return sorted(__all__)
