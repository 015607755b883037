"""One face for a checkpoint, however it was addressed.

locate      what a user typed -> where the checkpoint is
folder      what checkpoints lie in a folder
generation  telling a V1 file from an index, and from any other table
named       what the paths in a state file mean where they lead nowhere
globs       glob patterns -> regular expressions
patterns    the pattern language of the command line
matching    patterns held against names piece by piece
graph_names   names of tensors by the object graph
time_limit  an end to expressions that try ever more ways to match
select      choosing tensors by patterns and kinds
nearest     names close to one that does not exist
kinds       what each tensor is: weight, slot, step ...
kinds_objects, kinds_names   the same for the two styles of checkpoint
kinds_rules   what both have in common
kinds_words   what optimizers call themselves and their variables
kinds_keras   which variables of Keras' optimizers belong to what, by name
kinds_averages   which weight each moving average is the average of
open        opening a checkpoint
tf_train    the functions of `tf.train` that read checkpoints
save        writing a mapping of arrays as a checkpoint
"""
