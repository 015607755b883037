"""Writing a plan: the only place where surgery touches files.

write        for programs: to a destination, in place, or not at all
prepare      every check before a plan is written; dry run and run
bundle       a bundle: staged, then published in a safe order
legacy       a V1 checkpoint, likewise
recoding     values rewritten, for either
fresh        values that a plan computes, written to a data shard
folder       the checkpoints of a folder, one after the other, and its state file
destination  where a checkpoint may be written
links        which linked files may be carried over
companions   the `.meta` file and the state file
watch        detecting changes of the source
receipt      the receipt; the interface of the three writers
"""
