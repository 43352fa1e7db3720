"""The data of a training: each sample exactly once per epoch at any number of workers.

A sample's number counts from the beginning of training; which sample it is, what its random
generators give and which process loads it all follow from that number, so nothing has to be moved
or remembered when the world changes.
"""
