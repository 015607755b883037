"""Whether checkpoints are sound.

addresses   all checkpoints that an address means
checkpoint  one checkpoint with its graph, checked again while it is being saved
bundle      the files of one V2 checkpoint, by the modules below
legacy     one V1 checkpoint
arrays     files of arrays, such as safetensors
table      the index as a table, damage skipped
index      header and entries; slices against tensors
slices     whether slices fill a tensor
extents    where tensors lie in the data shards
data       reading the data shards in parallel
checksums  findings from the checksums
objects    the object graph against the index
metagraph  the graph, its files, and its variables against the tensors
folder     leftovers, orphans and the state file
repair     the state file written anew, and what else can be mended
names      the names in a folder, listed once
diagnosis  what happened, in one sentence
findings   the codes of findings
report     subjects and reports
"""
