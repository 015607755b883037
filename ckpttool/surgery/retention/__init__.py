"""Deleting the checkpoints of a folder that a manager would delete.

plan       which checkpoints go, which stay, and why
files      the files of the checkpoints of a folder, and what deleting them frees
execution  the plan carried out, or only told
"""
