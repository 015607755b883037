"""What each tensor of a checkpoint is, in one word: weight, slot, step ...

tensors  the kinds of all tensors of a checkpoint
objects  rules for object-based checkpoints
names    rules for name-based checkpoints
keras    names of the variables of Keras optimizers
averages  which weight each moving average belongs to
families  optimizers by the slots that they keep, and the names of these
words    what optimizers call themselves and their variables
rules    the kinds, and the rules that both styles share
"""
