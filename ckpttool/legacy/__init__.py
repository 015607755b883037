"""The checkpoint format before the tensor bundle, called V1: tables that hold the tensors.

naming     what the files of a checkpoint in several files are called
records    the records of a file
entry      what is known of a tensor
files      the files of a checkpoint, open for reading
reader     reading a checkpoint
writer     writing one
"""
