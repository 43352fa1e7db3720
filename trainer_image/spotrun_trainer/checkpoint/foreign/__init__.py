"""Tensors as other programs need them: whole, independent of how many processes saved them.

`source` is the interface for named tensors; `saved` is one of our checkpoints. Everything is read
range by range, so a model need not fit into memory.
"""
