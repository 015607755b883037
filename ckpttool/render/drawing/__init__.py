"""Drawings of checkpoints.

write    a drawing in any form
labels   the words of a drawing, the same in every form
palette  the colours
layout   where everything stands in a picture of our own
svg      such a picture as SVG
dot      for Graphviz
mermaid  for Mermaid, alone or in Markdown
"""
