"""Writing every value anew, in the form and layout of today.

stage     data shards with every value rewritten
payloads  the bytes of a tensor in today's form
spread    distributing rewritten values over files
"""
