"""Answers turned into text.

console     terminal or not, colour, width
humanize    sizes, counts, shapes and times in words
cells       columns, and the text of each cell
table       rows in every output format, as they come
aligned     rows as a table for people, fitted to the terminal
jsonout     strict JSON, streamed
layout      an array as NumPy would lay it out
tree        a tree drawn with lines
progress    a bar on the terminal for what takes long
listing     the tensors of a checkpoint, and the views of them
show        values and summaries
diff        what changed
check       what came of holding a checkpoint against a lock
verify      the findings of a verification
metagraph   a graph in full
metajson    what a form of a graph does not have
surgery     what becomes of a checkpoint
conversion  what became of checkpoints and exports of old forms
"""
