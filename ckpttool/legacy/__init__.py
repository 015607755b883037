"""V1, the checkpoint format before the tensor bundle: tables that hold the tensors.

naming     names of the files of a checkpoint in several files
records    the records of a file, and the entry of a tensor
files      the files of a checkpoint, open for reading
reader     reading a checkpoint
writer     writing one
"""
