"""The kind of each tensor of a checkpoint: weight, slot, step ...

tensors     the kinds of all tensors of a checkpoint
objects     rules for object-based checkpoints
names       rules for name-based checkpoints
datasets    rules for files of Keras
keras       names of the variables of Keras optimizers
averages    the weight of each moving average
slots       slot variables by the names that optimizers give them
optimizers  names of optimizers and of their variables
rules       the kinds, and the rules that both styles share
"""
