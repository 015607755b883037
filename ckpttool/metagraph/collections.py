"""What the items of collections are, where these are lists of serialized messages.

TensorFlow gives a collection of a registered name the message that was registered with it. Older
releases had fewer of these and wrote lists of names of nodes under the same name.
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
# Full names of messages, by collection. Those of a list of Any say themselves what they are.
MESSAGES = {
    **dict.fromkeys(VARIABLES, "tensorflow.VariableDef"),
    "queue_runners": "tensorflow.QueueRunnerDef",
    "cond_context": "tensorflow.CondContextDef",
    "while_context": "tensorflow.WhileContextDef",
    "savers": "tensorflow.SaverDef",
    "hparams": "tensorflow.HParamDef",
}
