"""A loss that is no number, on the first rank only.

First cause: rank 0 ended with exit code 1: AssertionError: loss is nan at step 3 at
one_rank_asserts.py:L
"""

import math

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
for step in range(100):
    loss = math.nan if step == 3 and dist.get_rank() == 0 else 0.1
    assert not math.isnan(loss), f"loss is nan at step {step}"
    dist.all_reduce(torch.tensor(loss))
