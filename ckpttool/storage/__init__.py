"""Files, without a thought for what is in them.

source          reading: sized, bounds-checked, by copy, by map or in chunks
processors      how many threads may read at once
folders         making them, making names durable
locks           one writer at a time
staging         writing: temporary siblings that become visible together or not at all
staged_file     one of these, changed through its descriptor only
temporary       what they are called
leftovers       which runs are alive, and what the others left behind
"""
