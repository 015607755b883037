"""Changing checkpoints: what to change is planned first, and written in one place.

plan        a checkpoint as it shall become, with the list of changes
rules       rules that give tensors and objects new names
precedence  which of many rules says first what becomes of a name
tables      rename tables that come with the package
renaming    a plan with other names
edge_notes  what a rename did to the graph that no key shows
pruning     a plan with fewer tensors
flattening  an object-based plan with the names of TensorFlow 1
like        a name-based plan with the object graph of another checkpoint
convert     checkpoints of old forms brought up to date
export      a SessionBundle export made a SavedModel
writing     writing a plan
"""
