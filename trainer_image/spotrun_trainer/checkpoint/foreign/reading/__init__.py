"""Reading weights that other programs wrote: ranges of tensors, and nothing unpickled.

`opening` finds out what is in a path, `loading` fills the tensors of a module.
"""
