"""A name-based plan with the object graph of another checkpoint, the reference.

reference  the operation
places     the tensors of the reference, as places for other tensors
matching   assigning tensors to places
notes      notes on tensors and places that are left over
"""
