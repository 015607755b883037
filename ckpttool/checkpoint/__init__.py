"""One interface to checkpoints of both formats, by any address.

locate      typed path -> location of a checkpoint
folder      the checkpoints in a folder
generation  telling a V1 file from an index, and from any other table
state       the text file that names a folder's latest checkpoint
retention   which checkpoints of a folder a manager keeps, and deleting one
wholeness   whether a checkpoint has all of its files
named       other meanings of paths in a state file that lead nowhere
open        opening a checkpoint
save        writing a mapping of arrays as a checkpoint
tf_train    the functions of `tf.train` that read checkpoints
kinds       the kind of each tensor: weight, slot, step ...
selection   choosing tensors by patterns and kinds
matching    which object of a program each node of an object graph is
fitting     what an object takes from its node, and whether it fits
nearest     names close to one that does not exist
"""
