"""A checkpoint as a drawing: its objects in as few nodes as a person needs to see them.

outline  the objects of a checkpoint, each at one place
objects  the outline of an object graph
scopes   the outline of a name-based checkpoint
alike    siblings that differ only in numbers
build    the drawing: an outline with repetition folded and the rest cut off
"""
