"""Reading weights that other programs wrote: it reads ranges of tensors, and unpickles nothing.

`opening` finds out which format a path has, `loading` fills the tensors of a module.
"""
