"""The loop of in_process.py, as on GPUs: over a stand-in for NCCL."""

from tests.scripts import in_process
from tests.support.gpu import nccl_on_host

nccl_on_host.pretend()
in_process.main()
