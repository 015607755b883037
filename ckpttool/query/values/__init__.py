"""The values of tensors, and numbers that sum them up.

targets     names, patterns and indices -> tensors and parts of them
parts       a tensor or part of one, block by block
detail      one tensor with its values
texts       elements as text, exactly
variants    what a variant holds
statistics  numbers that sum a tensor up, in bounded memory
npy         a tensor as a NumPy file
"""
