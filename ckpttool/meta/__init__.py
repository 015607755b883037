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

graph_facts         everything about a graph that is told of it in full
graph_signatures    its signatures, also those of an export
graph_variables     its variables, and under which keys its Saver looks for them
graph_updates       what optimizers do to them
graph_effects       operations that reach beyond the graph
graph_soundness     what no loader accepts in it

graph_compare       two graphs compared by what they mean
graph_changes       what can come of that
graph_attributes    attributes of nodes, compared and in words
graph_collections   collections, item by item
graph_functions     functions brought together in spite of numbers in their names
tensor_messages     whether two constants are the same

session_bundle          what a SessionBundle export says of itself
session_signatures      its signatures, as those of a SavedModel
saved_model             the message of the SavedModel that it becomes
graph_tensors           tensors of a graph: names, dtypes, shapes, what they need
graph_saver             how a graph restores its variables, brought up to date
graph_loading           what loaders of today would refuse in a graph, said otherwise
"""
