"""Two graphs compared by meaning, not by bytes.

graphs       the comparison
changes      its results
attributes   attributes of nodes, compared and in words
collections  collections, item by item
constants    equality of constants
"""
