"""A plan with the object graph of another checkpoint, the reference.

reference   the operation
places      the tensors of the reference, as places for other tensors
matching    assigning the tensors of a name-based plan to places
objects     assigning those of an object-based plan
sides       the variables of each of two object-based checkpoints
optimizers  what optimizers of all generations keep, under shared names
naming      pairing variables by full names that differ in numbers
notes       notes on tensors and places that are left over
"""
