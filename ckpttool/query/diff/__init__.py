"""What changed between two checkpoints.

checkpoints  the comparison of two checkpoints
series       tensors through the checkpoints of a folder
index        tensors brought together, and what the indexes alone say
renames      the same content under another name
scopes       renames by scope, and as a map
values       values block by block, on several processors
elements     two arrays, element by element
objects      two object graphs, object by object
metagraph    two MetaGraphs, by what they mean
results      what can come of all that
"""
