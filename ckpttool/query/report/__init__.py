"""The facts of a report on a checkpoint.

facts   all of them, the statistics of every tensor included
values  statistics and histograms of many tensors, in one pass and in parallel
layers  the numbered layers of a checkpoint as a matrix
"""
