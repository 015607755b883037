"""Files in which other programs keep tensors.

safetensors  the header: reading and making it, and which dtypes it has
"""
