"""Files, without a thought for what is in them.

source      reading: sized, bounds-checked, by copy, by map or in chunks
locking     one writer in a folder at a time
staging     writing: temporary siblings that become visible together or not at all
"""
