"""A rank that stops taking part: the others end after their time-out.

First cause: rank 0 ended with exit code 1: RuntimeError: ... imed out waiting ... rank 1 ...
had not failed: look there for a rank that hangs
"""

import time
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=5))
dist.all_reduce(torch.zeros(1))
if dist.get_rank() == 1:
    time.sleep(600)
dist.all_reduce(torch.zeros(1))
