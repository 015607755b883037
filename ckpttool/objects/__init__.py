"""The object graph of an object-based checkpoint: which object each tensor belongs to.

keys      tensor key <-> object path; strings only
nodes     what programs see of a node
columns   the nodes of a graph, held by columns
decoding  the columns of a serialized graph
encoding  the bytes of columns
places    where each object has its path
claims    which tensors belong to which attributes
graph     the whole graph: paths, slot variables, nodes by their names
drops     a graph with attributes taken out
moves     a graph with edges renamed and moved
"""
