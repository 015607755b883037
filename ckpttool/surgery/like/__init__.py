"""A name-based plan with the object graph of another checkpoint, the reference.

reference  the operation
places     the tensors of the reference, as places that other tensors may take
matching   which tensor takes which place
notes      what is left over on both sides
"""
