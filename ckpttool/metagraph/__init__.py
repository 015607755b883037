"""MetaGraphs: the graphs in `.meta` files, SavedModels and SessionBundle exports.

file         reading a graph file; recognising other kinds of files
facts        the main facts of a MetaGraph
report       the full facts, for `ckpt show --graph`
collections  the messages in collections
signatures   ways to call a graph
variables    its variables, and the keys under which its Saver looks for them
updates      what optimizers do to the variables
effects      operations that reach beyond the graph
tensors      tensors of a graph: names, dtypes, shapes, what they need
soundness    faults that no loader accepts
loading      changes for today's loaders
saver        the Saver, brought up to date
document     a graph file as a whole, written again as JSON, text or bytes
compare      two graphs compared by meaning

session_bundle      the parts of a SessionBundle export
session_signatures  its signatures, as those of a SavedModel
saved_model         the SavedModel made from it
"""
