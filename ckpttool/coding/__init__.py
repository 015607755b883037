"""Bytes to numbers and back: pure functions that know no file format.

varint      variable-length and fixed-width integers
checksum    crc32c and its masked form
ordered     numbers and strings whose bytes sort as they do
"""
