"""Files and folders, whatever their contents.

paths          paths as callers give them
system         what an operating system has and lacks
source         reading: sized and bounds-checked
folders        making folders, making names durable
foreign        files and folders of other programs, for error messages
work           progress, the number of threads, a pause of the garbage collector
locks          one writer at a time
staging        writing: temporary siblings that become visible together or not at all
staged_file    one temporary file, changed through its descriptor only
staged_folder  a folder that appears whole
temporary      the names of temporary files
leftovers      temporary files of dead runs
"""
