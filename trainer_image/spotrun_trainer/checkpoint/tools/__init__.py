"""The commands `spotrun checkpoints`: what is in a folder of checkpoints, and whether it is whole.

`command` has them all; each has a module that says what it finds, as data first and then as text.
"""
