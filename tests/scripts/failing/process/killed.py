"""A process killed as the kernel does it for memory, while the other is in a collective.

First cause: rank 1 was killed by SIGKILL (... memory
"""

import os
import signal

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
dist.all_reduce(torch.zeros(1))
if dist.get_rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
dist.all_reduce(torch.zeros(1))
