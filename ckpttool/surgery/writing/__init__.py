"""Writing a plan: the only place where surgery touches files.

prepare      every check before a plan is written; dry run and run
bundle       the order in which the files of a bundle appear, new or in place
legacy       the files of a V1 checkpoint
write        the same as programs ask for it: to a destination, in place, or not at all
destination  where a checkpoint may be written
links        whether a file that a link leads to may be carried along
legacy_sets  the V1 checkpoints that it takes the place of
stage        the files of a plan, beside their destination
carry        data shards from source to destination: by link, clone or copy
layout       where every tensor will lie
payloads     the bytes of a tensor as a bundle of today holds them
spread       which file each value goes to when all are written anew
recode       data shards with every value written anew
companions   the `.meta` file and the state file
old_shards   which data shards go when others are there
watch        whether the source is still what was read
undo         taking back what was published
receipt      what was written; what the ways to write have in common
"""
