"""Writing a plan as a V1 checkpoint, and replacing one.

commit     the order in which the files of a V1 checkpoint appear
old_files  the files of a V1 checkpoint that is replaced
"""
