"""A list with an entry for one process only.

First cause: rank 1 ended with exit code 1: IndexError: list index out of range at
world_size_assumed.py:L
"""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
part = ["shard-0.bin"][dist.get_rank()]
dist.all_reduce(torch.zeros(len(part)))
