"""What a notebook shows of an answer: static HTML of at most 6 KB, without scripts and ids.

view        the HTML of any answer
frame       the frame around all of them, bars and tables
checkpoint  a checkpoint
diff        what changed between two
layers      changes layer by layer
series      the checkpoints of a folder
"""
