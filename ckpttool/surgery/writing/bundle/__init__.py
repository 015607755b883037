"""Writing a plan as a bundle (V2).

commit      the order in which the files of a bundle appear, new or in place
stage       the files of a plan, staged beside their destination
adopt       safetensors files adopted as data shards
carry       data shards from source to destination: by link, clone or copy
layout      the places of all tensors
old_shards  removing replaced data shards
undo        taking back published files
"""
