"""Sums of gradients over processes: in flat buckets, in a tree, in fewer bytes."""
