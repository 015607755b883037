"""Changing checkpoints: what to change is planned first, and written in one place.

plan          a checkpoint as it shall become, with the list of changes
rules         rules that give tensors and objects new names
rename        a plan with other names
tables        rename tables that come with the package
edge_notes    what a rename did to the graph that no key shows
graph_moves   an object graph with edges renamed and moved
prune         a plan with fewer tensors
graph_drops   an object graph without some of its attributes
graph_values  which objects hold values
like          a name-based plan with the object graph of another checkpoint
like_matching, like_places, like_slots, like_notes   which tensor goes where, and what is left
flatten       an object-based plan with the names of TensorFlow 1
convert       checkpoints of old forms brought up to date

apply         writing a plan
destination   where a checkpoint may be written
stage         the files of a plan, beside their destination
undo          taking back what was published
watch         whether the source is still what was read
links         whether a file that a link leads to may be carried along
carry         data shards from source to destination: by link, clone or copy
layout        where every tensor will lie
payloads      the bytes of a tensor as a bundle of today holds them
spread        which file each value goes to when all are written anew
recode        data shards with every value written anew
apply_legacy  writing a plan as a checkpoint of format V1
legacy_sets   the V1 checkpoints that it takes the place of
companions    the `.meta` file and the state file
receipt       what was written

export         a SessionBundle export made a SavedModel
export_assets  its asset files
export_folder  a folder that appears whole
"""
