"""What changed between two checkpoints.

checkpoints  the comparison of two checkpoints
series       tensors through the checkpoints of a folder
curves       a few numbers of whole checkpoints, through all of a folder
index        matching tensors, and the differences in the indexes
renames      the same content under another name
scopes       renames by scope, and as a map
pairs        small tensors of the same bytes, by the million
values       values block by block, in parallel
elements     two arrays, element by element
objects      two object graphs, object by object
metagraph    two MetaGraphs, by meaning
layers       the changes layer by layer
results      the results as data
"""
