"""The checkpoint system of TensorFlow for programs on NumPy: tracking, saving, restoring.

    from ckpttool import train as tft

    net = tft.Module()
    net.kernel = tft.Variable(np.zeros((3, 2)), name="kernel")
    checkpoint = tft.Checkpoint(net=net, step=tft.Variable(0))
    path = checkpoint.save("tf_ckpts/ckpt")
    checkpoint.restore(path).assert_consumed()

Names are those of `tf.train`, `tf` and Keras, as far as they are there; the same program run with
TensorFlow writes the same files and reads them. Each name is resolved on first use.

checkpoint  a program's objects under one root: saving, the save counter
manager     saving into one folder, and deleting there what is too old
worker      writing in a thread
saving      writing checkpoints and state files
snapshot    a program at one moment: object graph and tensors
restore     restoring a program
loads       one reading of a checkpoint: what is read, checked and assigned together
takings     what objects take from a checkpoint, and whether it fits
reading     values, read and checked as a whole
plans       what restoring would do, for any program
planning    live objects as the program of a plan
status      what a restore has done and has not
program     a program made of what a checkpoint holds
views       object graphs of checkpoints and programs, to look at
options     options of saving and restoring
trackable   what every tracked object has: edges, pending restores, values
module      objects whose attributes are edges
containers  lists, dicts and tuples on attributes
variable    an array with a name that keeps its buffer
slots       owners of slot variables, such as optimizers
carried     what the program does not know, kept to be saved again
plain       plain objects and trees, with the arrays in them
adoption    the memory of other libraries' arrays
states      state as bytes, or as a dict of tensors
initial     the array of a new variable, with the dtype that TensorFlow would give it
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ckpttool.checkpoint.tf_train import (
        checkpoints_iterator,
        get_checkpoint_state,
        latest_checkpoint,
        list_variables,
        load_checkpoint,
        load_variable,
    )
    from ckpttool.errors import (
        ContainerChangedError,
        MismatchError,
        UnrestoredError,
        UnrestoredWarning,
        UnsavedWarning,
        UntrackableError,
    )
    from ckpttool.surgery.retention.execution import sweep
    from ckpttool.train.carried import Carried
    from ckpttool.train.checkpoint import Checkpoint, load_weights, save_weights
    from ckpttool.train.containers import NoDependency
    from ckpttool.train.manager import CheckpointManager
    from ckpttool.train.module import Module
    from ckpttool.train.options import CheckpointOptions
    from ckpttool.train.plain import track
    from ckpttool.train.plans import restore_plan
    from ckpttool.train.program import load_objects
    from ckpttool.train.slots import SlotOwner
    from ckpttool.train.states import PythonState, TensorState, experimental
    from ckpttool.train.status import (
        CheckpointLoadStatus,
        InitializationOnlyStatus,
        NameBasedSaverStatus,
    )
    from ckpttool.train.trackable import Trackable
    from ckpttool.train.variable import Variable
    from ckpttool.train.views import CheckpointView, TrackableView

__all__ = [
    "Carried",
    "Checkpoint",
    "CheckpointLoadStatus",
    "CheckpointManager",
    "CheckpointOptions",
    "CheckpointView",
    "ContainerChangedError",
    "InitializationOnlyStatus",
    "MismatchError",
    "Module",
    "NameBasedSaverStatus",
    "NoDependency",
    "PythonState",
    "SlotOwner",
    "TensorState",
    "Trackable",
    "TrackableView",
    "UnrestoredError",
    "UnrestoredWarning",
    "UnsavedWarning",
    "UntrackableError",
    "Variable",
    "checkpoints_iterator",
    "experimental",
    "get_checkpoint_state",
    "latest_checkpoint",
    "list_variables",
    "load_checkpoint",
    "load_objects",
    "load_variable",
    "load_weights",
    "restore_plan",
    "save_weights",
    "sweep",
    "track",
]

_HOMES = {
    "Carried": "train.carried",
    "Checkpoint": "train.checkpoint",
    "CheckpointLoadStatus": "train.status",
    "CheckpointManager": "train.manager",
    "CheckpointOptions": "train.options",
    "CheckpointView": "train.views",
    "ContainerChangedError": "errors",
    "InitializationOnlyStatus": "train.status",
    "MismatchError": "errors",
    "Module": "train.module",
    "NameBasedSaverStatus": "train.status",
    "NoDependency": "train.containers",
    "PythonState": "train.states",
    "SlotOwner": "train.slots",
    "TensorState": "train.states",
    "Trackable": "train.trackable",
    "TrackableView": "train.views",
    "UnrestoredError": "errors",
    "UnrestoredWarning": "errors",
    "UnsavedWarning": "errors",
    "UntrackableError": "errors",
    "Variable": "train.variable",
    "checkpoints_iterator": "checkpoint.tf_train",
    "experimental": "train.states",
    "get_checkpoint_state": "checkpoint.tf_train",
    "latest_checkpoint": "checkpoint.tf_train",
    "list_variables": "checkpoint.tf_train",
    "load_checkpoint": "checkpoint.tf_train",
    "load_objects": "train.program",
    "load_variable": "checkpoint.tf_train",
    "load_weights": "train.checkpoint",
    "restore_plan": "train.plans",
    "save_weights": "train.checkpoint",
    "sweep": "surgery.retention.execution",
    "track": "train.plain",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"ckpttool.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
