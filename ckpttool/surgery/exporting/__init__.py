"""Tensors of a plan as files of other formats.

choice    which tensors, and their names
contents  their bytes, as other formats have them
files     which tensors go into which file, and what no file can hold
write     writing the files
"""
