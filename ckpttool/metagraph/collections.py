"""The types of the messages in collections.

TensorFlow registers a message type for some names of collections. Older releases had fewer and
wrote lists of node names under the same names.
"""

from __future__ import annotations

# The collections that hold a VariableDef for each variable.
VARIABLES = frozenset(
    {
        "variables",
        "trainable_variables",
        "moving_average_variables",
        "local_variables",
        "model_variables",
        "metric_variables",
        "global_step",
        "tpu_estimator_iterations_per_loop",
    }
)
# Collection -> full name of the message. An Any names its own type.
MESSAGES = {
    **dict.fromkeys(VARIABLES, "tensorflow.VariableDef"),
    "queue_runners": "tensorflow.QueueRunnerDef",
    "cond_context": "tensorflow.CondContextDef",
    "while_context": "tensorflow.WhileContextDef",
    "savers": "tensorflow.SaverDef",
    "hparams": "tensorflow.HParamDef",
}
