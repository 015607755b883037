"""Giving tensors of a plan other values.

casting     another dtype
setting     values that are given
npy_value   values from files of NumPy arrays
value_text  values as they are typed
together    several edits at once
grafting    tensors of another checkpoint
"""
