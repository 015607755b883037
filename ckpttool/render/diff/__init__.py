"""What changed between two checkpoints.

text       for people, section by section
rows       as rows and as lists of names
json       as JSON
layers     with a character for each layer
series     through the checkpoints of a folder
metagraph  what differs between two graphs
"""
