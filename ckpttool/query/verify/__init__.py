"""Whether checkpoints are sound.

addresses   all checkpoints that an address means
checkpoint  one checkpoint with its graph, again while it is being saved
bundle      the files of one checkpoint, by means of those below
legacy     one checkpoint of format V1
table      the index as a table, past what is damaged in it
index      header and entries; slices against tensors
slices     whether slices fill a tensor
extents    where tensors lie in the data shards
data       reading the data shards in parallel
checksums  what follows from the checksums
objects    the object graph against the index
metagraph  the graph, its files, and its variables against the tensors
folder     leftovers, orphans and the state file
names      what lies beside a checkpoint, listed once
findings   what can be wrong
report     what was looked at, and what came of it
"""
