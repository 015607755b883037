"""Choosing tensors by patterns and kinds.

select       the choice
columns      names in columns, to be searched
patterns     one pattern of the command line
globs        glob patterns -> regular expressions
matchers     patterns matched against names piece by piece
graph_names  names of tensors by the object graph
time_limit   a limit for regular expressions with exponential time
"""
