"""Changing checkpoints: what to change is planned first, and written in one place.

plan          a checkpoint as it shall become, with the list of changes
rules         rules that give tensors and objects new names
rename        a plan with other names
tables        rename tables that come with the package
graph_moves   an object graph with edges renamed and moved
prune         a plan with fewer tensors
graph_drops   an object graph without some of its attributes
graph_values  which objects hold values
apply         writing a plan
stage         the files of a plan, beside their destination
watch         whether the source is still what was read
carry         data shards from source to destination: by link, clone or copy
layout        where every tensor will lie
companions    the `.meta` file and the state file
receipt       what was written
"""
