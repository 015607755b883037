"""Tensors, wherever they are stored.

dtypes      one row per dtype
shape       element counts, and the shape message
entries     tensors by name without their values, damaged ones included
slices      parts of a partitioned tensor: messages, keys, whether they fill it
strings     the bytes of a string tensor
variants    the bytes of a variant tensor
verifier    the crc32c of a tensor's bytes as they stream by
partial     part of a tensor, read without the rest
values      bytes to arrays and back, joining slices
casting     elements in another dtype, rounded once
given       values that a person or a program gives
mean        the mean of elements of several tensors
proto_values, proto_writing  the elements in a TensorProto
layout      another order of the elements: permuted, reshaped
region      NumPy indices, and which part of a tensor they need
"""
