"""Messages in protobuf's JSON mapping, losslessly and with line numbers for faults.

mapping    how each message looks in JSON
printer    a message as JSON
parser     a message from JSON
scalars    single values from JSON
anys       the message in an Any
map_order  the order of maps in an Any
"""
