"""Giving tensors of a plan other values.

casting     another dtype
setting     values that are given
value_text  values as they are typed
grafting    tensors of another checkpoint
"""
