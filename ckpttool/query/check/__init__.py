"""A checkpoint held against a lock.

checkpoint  the comparison
lock        reading a lock
lines       in which line of it a tensor is
update      a lock written anew
metagraph   the variables of the MetaGraph
finite      numbers that are not finite
findings    what can come of it
"""
