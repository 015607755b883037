"""Writing a plan: the only place where surgery touches files.

prepare      every check before a plan is written; dry run and run
bundle       the order in which the files of a bundle appear, new or in place
legacy       the files of a V1 checkpoint
write        the same as programs ask for it: to a destination, in place, or not at all
destination  where a checkpoint may be written
links        which linked files may be carried over
legacy_sets  V1 checkpoints that are replaced
stage        the files of a plan, staged beside their destination
carry        data shards from source to destination: by link, clone or copy
layout       the places of all tensors
payloads     the bytes of a tensor in today's form
spread       distributing rewritten values over files
recode       data shards with every value rewritten
companions   the `.meta` file and the state file
old_shards   removing replaced data shards
watch        detecting changes of the source
undo         taking back published files
receipt      the receipt; the interface of the three writers
"""
