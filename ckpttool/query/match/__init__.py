"""What restoring a checkpoint into a program would do.

plan  the answer, as data
"""
