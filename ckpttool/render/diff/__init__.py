"""What changed between two checkpoints.

text       for people, section by section
rows       as rows and as lists of names
json       as JSON
metagraph  what differs between two graphs
"""
