"""What lies beside the tensors of a checkpoint: names, objects, state files, graphs.

object_keys      tensor key <-> object path; strings only
object_nodes     the record that ties keys to the objects of a program: its parts, its bytes
object_graph     that record as a whole: paths, owners of keys, slot variables
state            the text file that names a folder's latest checkpoint
metagraph        the facts of a `.meta` or `saved_model.pb` file that people ask for

metagraph_file          which message a graph file is, and the message
metagraph_guess         what a file looks like that is none
metagraph_document      a graph file as a whole, written again as JSON, text or bytes
metagraph_collections   what the items of collections are

session_bundle          what a SessionBundle export says of itself
session_signatures      its signatures, as those of a SavedModel
saved_model             the message of the SavedModel that it becomes
graph_tensors           tensors of a graph: names, dtypes, shapes, what they need
graph_saver             how a graph restores its variables, brought up to date
"""
