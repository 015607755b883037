"""The object graph of an object-based checkpoint: which object each tensor belongs to.

keys     tensor key <-> object path; strings only
nodes    the nodes, to and from bytes
graph    the whole graph: paths, owners of keys, slot variables, holders of values
moves    a graph with edges renamed and moved
"""
