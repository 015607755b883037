"""Answers about a checkpoint, as data: nothing here prints, and nothing here writes tensors.

source     the checkpoint's own facts, in every answer
listing    the tensors, from the index alone
rows       the tensors of a listing, held by columns
grouping   tensors summed up by scope, or numbered layers folded into one row
folder     the checkpoints of a folder
tree       the object graph, or the scopes, as a tree
drawing    the same for a picture: in as few nodes as that takes
shards     whether the data shards exist and are long enough
summary    the summary of a checkpoint
report     all that a report on a checkpoint shows
values     the values of tensors, and statistics
metagraph  the full facts of a graph
diff       what changed between two checkpoints
verify     whether checkpoints are sound
check      checking a checkpoint against a lock
match      what restoring a checkpoint into a program would do
"""
