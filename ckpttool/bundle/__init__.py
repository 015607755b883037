"""The tensor bundle: checkpoint format V2, an index and one or more data shards.

naming    prefix and file names
entry     the records of the index
columns   many of them decoded at once
index     the whole index
shards    data shards: are they there, and long enough
checked   bytes together with their checksum
ahead     small tensors that lie in order, read together
reader    reading a bundle
writer    writing one
"""
