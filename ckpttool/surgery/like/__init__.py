"""A name-based plan with the object graph of another checkpoint, the reference.

reference  the operation
places     the tensors of the reference, as places that other tensors may take
matching   which tensor takes which place
slots      slot variables by the names that optimizers of TensorFlow 1 give them
notes      what is left over on both sides
"""
