"""The values of tensors, and statistics.

targets     names, patterns and indices -> tensors and parts of them
parts       a tensor or part of one, block by block
detail      one tensor with its values
texts       elements as exact text
variants    the contents of variants
statistics  statistics of a tensor, in bounded memory
files       tensors in a file: .npy, .npz, .safetensors, .csv
"""
