"""The commands `spotrun checkpoints`: what is in a folder of checkpoints, and whether it is intact.

`command` has them all; each has a module that reports what it finds, as data first and then as
text.
"""
