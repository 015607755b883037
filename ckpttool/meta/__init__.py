"""What lies beside the tensors of a checkpoint: names, objects, state files, graphs.

object_keys      tensor key <-> object path; strings only
object_nodes     the record that ties keys to the objects of a program: its parts, its bytes
object_graph     that record as a whole: paths, owners of keys, slot variables
state            the text file that names a folder's latest checkpoint
metagraph        the facts of a `.meta` or `saved_model.pb` file that people ask for
"""
