"""Maps: other names for tensors and, for other libraries, other layouts.

reading        files of maps, in all their forms
layouts        values in another layout, and plans by a map
torch_draft    drafting a map to PyTorch
keras_draft    drafting a map to a `.weights.h5` file of Keras
keras_pairing  variables of a reference for the datasets of a file of Keras
"""
