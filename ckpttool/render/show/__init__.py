"""The values of tensors, and what a checkpoint is.

text        values as text
json        values as JSON
summary     what a checkpoint is
statistics  statistics as rows
rows        the rest as rows
"""
