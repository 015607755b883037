"""The sorted string table: an immutable file of keys and values in key order.

format          the bytes around blocks: handle, trailer, footer; how keys are shortened
block           the entries of one block
stored          reading one block as it is stored
reader          walking a table file
values          blocks whose values may be too large to be read at once
lookup          finding single keys
block_builder   building one block
builder         building a table
"""
