"""Choosing tensors by patterns and kinds.

select       the choice
patterns     one pattern of the command line
globs        glob patterns -> regular expressions
matching     patterns held against names piece by piece
graph_names  names of tensors by the object graph
time_limit   an end to expressions that try ever more ways to match
"""
