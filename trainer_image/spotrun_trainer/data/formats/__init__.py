"""Datasets in files: tokens, Parquet, Arrow, tar and HDF5, each sample by its number.

Compressed data, which cannot be read at any position, is unpacked once for all processes of a node,
into the node's cache; from there it is mapped into memory.
"""
