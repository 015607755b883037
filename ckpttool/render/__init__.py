"""Answers turned into text.

console     terminal or not, colour, width
humanize    sizes, counts, shapes and times in words
tabular     rows in every output format, as they come
aligned     rows as a table for people, fitted to the terminal
jsonout     strict JSON, streamed
"""
