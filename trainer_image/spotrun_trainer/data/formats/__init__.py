"""Datasets in files: tokens, Parquet, Arrow, tar and HDF5, each sample by its number.

Whatever cannot be read at any place at once, for it is compressed, is unpacked once for all
processes of a node, into the node's cache; from there it is mapped into memory.
"""
