"""The loop of in_process.py over a stand-in for NCCL, which rank 1 ends only slowly."""

import os

from tests.scripts import in_process
from tests.support.gpu import nccl_on_host

nccl_on_host.pretend()
if os.environ["RANK"] == "1":
    nccl_on_host.NcclOnHost.abort_seconds = 4.0  # twice what the operator lets a worker be late
in_process.main()
