"""Files and folders, whatever is in them.

source         reading: sized and bounds-checked
processors     how many threads may read at once
folders        making them, making names durable
locks          one writer at a time
staging        writing: temporary siblings that become visible together or not at all
staged_file    one temporary file, changed through its descriptor only
staged_folder  a folder that appears whole
temporary      the names of temporary files
leftovers      which runs are alive, and what the others left behind
"""
