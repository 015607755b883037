"""What restoring a checkpoint into a program would do.

restore      the plan of a checkpoint and a file that stands for a program
trial        matching a checkpoint with a program, without changing anything
programs     programs in files: the objects of a graph, or of a lock
outcome      what a load took and left
suggestions  rules of `ckpt rename` by which more is taken
ignoring     the answer without some tensors
advice       what to do about the answer
plan         the answer, as data
"""
