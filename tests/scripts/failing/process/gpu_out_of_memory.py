"""Too little memory on a GPU; where there is no GPU it is only said so.

First cause: rank 1 ended with exit code 1: OutOfMemoryError: CUDA out of memory. Tried to
allocate ... gpu_out_of_memory.py:L in forward
"""

import torch
import torch.distributed as dist


def forward() -> torch.Tensor:
    if torch.cuda.is_available():
        return torch.zeros(1 << 42, device="cuda")
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 is full.")


dist.init_process_group("gloo")
if dist.get_rank() == 1:
    forward()
dist.barrier()
