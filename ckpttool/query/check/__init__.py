"""A checkpoint held against a lock.

checkpoint  the comparison
lock        a lock: reading it, its tensors by columns, and in which line each is
stream      JSON read piece by piece
update      a lock written anew
metagraph   the variables of the MetaGraph
finite      numbers that are not finite
findings    what can come of it
"""
