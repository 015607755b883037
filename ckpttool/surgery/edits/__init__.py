"""Giving tensors of a plan other values.

casting     another dtype
"""
