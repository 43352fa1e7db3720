"""A training's state in memory across restarts of its processes, for loops without `Run`.

With DDP all processes hold the same state after a step. So one process of each worker, that of
local rank 0, copies it into memory that the worker's agent holds (`process/node_memory.py`): the
agent outlives the processes. After a loss the restarted processes agree on the newest state that
any of them has, in the memory of a worker or loaded from a file, and those that lack it get it from
one that has it. Nothing is pickled: tensors are bytes, and everything else is JSON.

A state is whole or not there. There are two slots, and the older one is overwritten: first its
header is cleared, then it is filled, and last its header is written (`slots.py`). A process that is
killed stops between two stores to memory, so at any such moment the other slot is whole.
There is no checksum over the content: it would take as long as the copy, and memory that survives
its writer holds what was written. `agreement.py` decides, as a pure function, whose state counts.
"""
