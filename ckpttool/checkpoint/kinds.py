"""What each tensor of a checkpoint is.

    kind       what it is                                          told by
    weight     a variable of the model                             nothing below being true
    slot       what an optimizer keeps beside each variable
    optimizer  hyper-parameters, counters, loss scale
    step       how far training has come
    ema        moving averages of variables
    iterator   position of an input pipeline
    table      contents of lookup tables
    graph      the object graph
    other      metrics, random states, Python state
"""
