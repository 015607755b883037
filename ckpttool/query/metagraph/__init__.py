"""Answers about a graph.

summary    the full facts of a graph
variables  its variables compared with the tensors of a checkpoint
document   converting a graph file to JSON, text or bytes, and back
"""
