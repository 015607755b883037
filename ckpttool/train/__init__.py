"""Tracking and saving the objects of a NumPy program as `tf.train.Checkpoint` does.

trackable   what every tracked object has: edges, pending restores, values
module      objects whose attributes are edges
variable    an array with a name that keeps its buffer
initial     the array of a new variable, with the dtype that TensorFlow would give it
"""
