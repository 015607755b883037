"""Answers turned into text.

console     terminal or not, colour, width
humanize    sizes, counts, shapes and times in words
tabular     rows in every output format, as they come
aligned     rows as a table for people, fitted to the terminal
jsonout     strict JSON, streamed
source      what every JSON document says of its checkpoint
listing     the tensors of a checkpoint, and the views of them
tree        a tree drawn with lines
detail, detail_json   values
layout      an array as NumPy would lay it out
histogram   a histogram in a line of text
statistics  statistics as rows
summary     what a checkpoint is
graph_summary   a graph in full
metajson    what a form of a graph does not have
diff, diff_rows, diff_json   what changed between two checkpoints
diff_metagraph  what differs between two graphs
surgery     what becomes of a checkpoint
conversion  what became of checkpoints and exports of old forms
progress    a bar on the terminal for what takes long
integrity   the findings of a verification
check           what came of holding a checkpoint against a lock
check_words     the same in words
check_github, check_junit, check_markdown   for programs that show it
check_lock      the text of a lock
"""
