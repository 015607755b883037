"""Files, without a thought for what is in them.

source      reading: sized, bounds-checked, by copy, by map or in chunks
folders     making them, making names durable, one writer at a time
staging     writing: temporary siblings that become visible together or not at all
"""
