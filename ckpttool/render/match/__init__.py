"""What restoring a checkpoint into a program would do.

text   for people: the verdict, what is not restored, and what to do
lines  many values on few lines, by scope
rows   a row for each value
"""
