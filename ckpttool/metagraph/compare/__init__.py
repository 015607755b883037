"""Two graphs compared by what they mean, not by their bytes.

graphs       the comparison
changes      what can come of it
attributes   attributes of nodes, compared and in words
collections  collections, item by item
functions    functions brought together in spite of numbers in their names
constants    whether two constants are the same
"""
