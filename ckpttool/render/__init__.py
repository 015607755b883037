"""Answers turned into text.

console     terminal or not, colour, width
humanize    sizes, counts, shapes and times in words
cells       columns, and the text of each cell
names       the columns that name tensors
table       rows in every output format, as they come
aligned     rows as a table for people, fitted to the terminal
wrap        lines broken between words
jsonout     strict JSON, streamed
layout      an array as NumPy would lay it out
bars        shares of a whole as bars
sparklines  numbers as a line of small bars
folded      many changes in few rows, by scope
tree        a tree drawn with lines
drawing     pictures of the objects
report      a page on a checkpoint
markup      elements of SVG and HTML
notebook    what a notebook shows
progress    a progress bar on the terminal
listing     the tensors of a checkpoint, and the views of them
show        values and summaries
diff        what changed
match       what restoring would do
check       the results of a check
verify      the findings of a verification
metagraph   the full facts of a graph
metajson    the losses in a form of a graph
surgery     the changes of a plan
placement   how tensors took the places of a reference
conversion  the results of converting checkpoints and exports
gc          what a sweep of a folder deletes and keeps
transfers   tensors written to files of other formats, or taken from them
"""
