"""Files in which other programs keep tensors.

safetensors  the header: reading and making it, and which dtypes it has
outgoing     a tensor to be written to such a file
formats      the formats that are written, by name and by ending
safetensors_writing, npz_writing, npy_writing    writing each of them
"""
