"""Bytes to numbers and back: pure functions that know no file format.

varint      variable-length and fixed-width integers
checksum    crc32c, its masked form, and the crc32c of parts in a row
wire        the fields of small protobuf messages
walk        the fields of messages that are too large to be held
version     the message that says who may read a file
json_text   JSON of strangers, and the lines of its faults
text        names: bytes in the files, text in programs
ordered     numbers and strings whose bytes sort as they do
"""
