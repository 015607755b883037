"""Answers about a graph.

summary    a graph in full
variables  its variables against the tensors of a checkpoint
document   a graph file on its way to JSON, text or bytes, and back
"""
