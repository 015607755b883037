"""Tracking and saving the objects of a NumPy program as `tf.train.Checkpoint` does.

checkpoint  a program's objects under one root: saving, the save counter
saving      writing checkpoints and state files
snapshot    a program at one moment: object graph and tensors
restore     restoring a program
loads       one reading of a checkpoint: what is read, checked and assigned together
reading     values, read and checked as a whole
status      what a restore has done and has not
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
