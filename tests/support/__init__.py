"""Help for the tests: none of it is a test itself.

encoder      a second opinion on the formats, written without a look at ckpttool
corruption   damage to good files, with or without the checksums made right again
fixtures     what MANIFEST.json says of the files in fixtures/
answers      everything a bundle says, as values that can be compared
limits       ceilings of memory and time
"""
