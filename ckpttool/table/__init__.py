"""The sorted string table: an immutable file of keys and values in key order.

format          the bytes around blocks: handle, trailer, footer; how keys are shortened
block           reading one block: place, trailer, compression, entries
reader          walking a table file, and finding single keys in it
values          blocks whose values may be too large to be read at once
block_builder   building one block
builder         building a table
"""
