"""Pure torch: what a model is, what a client does with a mini-batch, and how updates become a new model.

No clock, threads or files. Every result is a function of its arguments in every bit: reductions have a fixed order,
and vectors that arrive from outside (a message's bytes, a mapped file) are first copied into torch's own memory,
since matrix kernels may round differently at another alignment. Intra-op threads are the caller's to set to one.
"""
