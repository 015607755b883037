"""Answers about a checkpoint, as data: nothing here prints, and nothing here writes tensors.

source       what all answers say of the checkpoint itself
listing      the tensors, from the index alone
grouping     tensors summed up by scope, or numbered layers folded into one row
folder       the checkpoints of a folder
tree         the object graph, or the scopes, as a tree
detail       the values of tensors
statistics   numbers that sum a tensor up, in bounded memory
summary      what a checkpoint is, in short
"""
