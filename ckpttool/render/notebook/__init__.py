"""What a notebook shows of an answer: static HTML of at most 6 KB, without scripts and ids.

view        the HTML of a checkpoint and of comparisons
frame       the frame around all of them, bars and tables
checkpoint  a checkpoint
diff        what changed between two
layers      changes layer by layer
report      the card of a report
series      the checkpoints of a folder
"""
