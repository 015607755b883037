"""A checkpoint as a tree.

nodes     what a tree is made of
build     the tree of a checkpoint: by one of the two below
scopes    of a name-based one, from its keys
objects   of an object-based one, from its object graph
"""
