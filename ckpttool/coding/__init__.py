"""Bytes to numbers and back: pure functions that know no file format.

varint      variable-length and fixed-width integers
checksum    crc32c, its masked form, and the crc32c of parts in a row
wire        the fields of small protobuf messages
walk        the fields of protobuf messages too large for memory
version     VersionDef: which readers may read a file
json_text   strict JSON, with the line of a fault
text        keys and names: bytes in files, text in programs
foreign     files of other programs, told by their first bytes
ordered     numbers and strings whose bytes sort as they do
"""
