"""A batch that one rank cannot read, while the other waits for it in a collective.

First cause: rank 1 ended with exit code 1: ValueError: sample 17 has no label at
one_rank_raises.py:L in batch
"""

import torch
import torch.distributed as dist


def batch(step: int) -> torch.Tensor:
    if dist.get_rank() == 1 and step == 5:
        raise ValueError("sample 17 has no label")
    return torch.zeros(10)


dist.init_process_group("gloo")
for step in range(100):
    dist.all_reduce(batch(step))
