"""A SessionBundle export made a SavedModel.

saved_model  the conversion
assets       its asset files
"""
