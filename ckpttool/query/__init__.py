"""Answers about a checkpoint, as data: nothing here prints, and nothing here writes tensors.

source       what all answers say of the checkpoint itself
listing      the tensors, from the index alone
rows         the tensors of a listing, held by columns
grouping     tensors summed up by scope, or numbered layers folded into one row
folder       the checkpoints of a folder
tree         the object graph, or the scopes, as a tree
targets      names, patterns and indices -> tensors and parts of them
parts        a tensor or part of one, block by block
detail       the values of tensors
texts        elements as text, exactly
variants     what a variant holds
graph        the object graph, node by node
statistics   numbers that sum a tensor up, in bounded memory
npy          a tensor as a NumPy file
summary      what a checkpoint is, in short
graph_summary     a graph in full
graph_variables   its variables against the tensors of a checkpoint
metajson     a graph file on its way to JSON, text or bytes, and back

diff            what changed between two checkpoints
diff_results    what can come of that
diff_index      tensors brought together, and what the indexes alone say
diff_renames    the same content under another name
diff_scopes     renames by scope, and as a map
diff_values     values block by block, on several processors
diff_elements   two arrays, element by element
diff_graph      two object graphs, object by object
diff_metagraph  two MetaGraphs, by what they mean
diff_series     tensors through the checkpoints of a folder

integrity               whether checkpoints are sound: all those that an address means
integrity_report        what was looked at, and what came of it
integrity_findings      what can be wrong with one
integrity_checkpoint    one checkpoint with its graph, again while it is being saved
integrity_names         what lies beside it, listed once
integrity_bundle        the files of one checkpoint, by means of those below
integrity_legacy        one checkpoint of format V1
integrity_table         the index as a table, past what is damaged in it
integrity_index         header and entries; slices against tensors
integrity_slices        whether slices fill a tensor
integrity_extents       where tensors lie in the data shards
integrity_data          reading the data shards in parallel
integrity_files         open data shards
integrity_checksums     what follows from the checksums
integrity_graph         the object graph against the index
integrity_metagraph     the graph, its files, and its variables against the tensors
integrity_folder        leftovers, orphans and the state file

lock            a checkpoint held against a lock
lock_file       reading a lock
lock_lines      in which line of it a tensor is
lock_findings   what such a check can find
lock_data       whether the data shards are all there
lock_graph      the variables of the MetaGraph
lock_finite     numbers that are not finite
lock_update     a lock written anew
"""
