"""Answers about a checkpoint, as data: nothing here prints, and nothing here writes tensors.

source     what all answers say of the checkpoint itself
listing    the tensors, from the index alone
rows       the tensors of a listing, held by columns
grouping   tensors summed up by scope, or numbered layers folded into one row
folder     the checkpoints of a folder
tree       the object graph, or the scopes, as a tree
shards     whether the data shards are there, and long enough
summary    what a checkpoint is, in short
values     the values of tensors, and numbers that sum them up
metagraph  a graph in full
diff       what changed between two checkpoints
verify     whether checkpoints are sound
check      a checkpoint held against a lock
"""
