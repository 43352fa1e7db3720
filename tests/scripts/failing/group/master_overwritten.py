"""An address from another cluster, set in the script over what torchrun has set.

First cause: rank ? ended with exit code 1: ... Error: ... no-such-host.invalid
"""

import os
from datetime import timedelta

import torch.distributed as dist

os.environ["MASTER_ADDR"] = "no-such-host.invalid"
dist.init_process_group("gloo", timeout=timedelta(seconds=5))
