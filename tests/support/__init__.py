"""Help for the tests: none of it is a test itself.

encoder           a second opinion on the formats, written without a look at ckpttool
handmade          bundles put together from its parts
corruption        damage to good files, with or without the checksums made right again
attack            what an attack on a bundle is, and the good bundle from which all start
attacks_index     one bad index file for each way to break a rule
attacks_entries   one bad record or shard for each way to break a rule
bombs             small bundles that claim to be huge
fixtures          what MANIFEST.json says of the files in fixtures/
answers           everything a bundle says, as values that can be compared
exports           SessionBundle exports, and changed copies of them
refusals          expecting errors of ckpttool
command           running `ckpt` as its users do
calls             file system calls, recorded and made to fail
limits            ceilings of memory and time
"""
