"""The JSON Schemas of what the commands print as JSON.

One file for each, named like the `schema` member of the output: `ckpt.ls/1` is `ckpt.ls.1.json`.
"""
