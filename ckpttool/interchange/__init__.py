"""Files in which other programs keep tensors: safetensors, and arrays of NumPy.

naming       which file is of which format
safetensors  the header of safetensors: reading and making it, and which dtypes it has
npy          the header of an array
archive      the directory of an archive of arrays
inflate      a compressed member of it
entry        the entry of a tensor
contents     the tensors of a file, by its headers
reader       reading them
outgoing     a tensor to be written to such a file
formats      the formats that are written, by name and by ending
safetensors_writing, npz_writing, npy_writing    writing each of them
keras_h5     HDF5: the datasets of a file; weights of Keras models, written after a template
"""
