"""The last module that the server of forked processes imports: their collector spares what is there.

A pass of the garbage collector writes to every object that it looks at, and a forked process copies
each page that it writes to: of torch's modules these are many, in each of the processes of a test.
"""

import gc

gc.collect()
gc.freeze()
