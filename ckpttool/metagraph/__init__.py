"""MetaGraphs: the graphs in `.meta` files, SavedModels and SessionBundle exports.

file         which message a graph file is, and the message; what it looks like if it is none
facts        the facts that people ask for
report       everything about a graph that is told of it in full
collections  what the items of collections are
signatures   ways to call a graph
variables    its variables, and under which keys its Saver looks for them
updates      what optimizers do to them
effects      operations that reach beyond the graph
tensors      tensors of a graph: names, dtypes, shapes, what they need
soundness    what no loader accepts in it
loading      what loaders of today would refuse in a graph, said otherwise
saver        how a graph restores its variables, brought up to date
document     a graph file as a whole, written again as JSON, text or bytes
compare      two graphs compared by what they mean

session_bundle      what a SessionBundle export says of itself
session_signatures  its signatures, as those of a SavedModel
saved_model         the message of the SavedModel that it becomes
"""
