"""One face for a checkpoint, however it was addressed.

locate      what a user typed -> where the checkpoint is
folder      what checkpoints lie in a folder
globs       glob patterns -> regular expressions
patterns    the pattern language of the command line
select      choosing tensors by patterns and kinds
nearest     names close to one that does not exist
kinds       what each tensor is: weight, slot, step ...; the parts of it:
            kinds_rules (what all have in common), kinds_objects, kinds_names
open        opening a checkpoint
tf_train    the functions of `tf.train` that read checkpoints
save        writing a mapping of arrays as a checkpoint
"""
