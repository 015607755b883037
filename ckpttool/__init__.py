"""Look into TensorFlow checkpoints and operate on them, without TensorFlow."""

__version__ = "0.1.0"
