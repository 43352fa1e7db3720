"""Tensors as other programs want them: whole, whatever number of processes saved them.

`source` says what can be asked of named tensors; `saved` is a checkpoint of ours. Everything is
read range by range, so no model has to fit into memory.
"""
