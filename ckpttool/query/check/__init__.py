"""Checking a checkpoint against a lock.

checkpoint  the comparison
lock        reading a lock: its tensors by columns, with their lines
stream      JSON read piece by piece
update      writing a lock
metagraph   the variables of the MetaGraph
finite      numbers that are not finite
findings    problems and reports
"""
