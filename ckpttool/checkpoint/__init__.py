"""One face for a checkpoint, however it was addressed.

locate      what a user typed -> where the checkpoint is
folder      what checkpoints lie in a folder
generation  telling a V1 file from an index, and from any other table
state       the text file that names a folder's latest checkpoint
named       what the paths in a state file mean where they lead nowhere
open        opening a checkpoint
save        writing a mapping of arrays as a checkpoint
tf_train    the functions of `tf.train` that read checkpoints
kinds       what each tensor is: weight, slot, step ...
selection   choosing tensors by patterns and kinds
nearest     names close to one that does not exist
"""
