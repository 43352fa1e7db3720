"""The device of the trainer's tests: the CPU, unless a test is marked `gpu`.

On a machine with a GPU as well: processes that share one take seconds and memory to open it, sum
over the host or by NCCL, and compute other bits than these tests expect.
"""

import os

import pytest
import torch

from tests.support.gpu import one_gpu

GPUS = os.environ.get("CUDA_VISIBLE_DEVICES", "0,1,2,3,4,5,6,7")
"""The GPUs that a test may use; CUDA leaves out those that are not there."""
IS_THERE = torch.cuda.is_available()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "gpu(shared=False): computes on a GPU, in several processes if it is shared",
    )


@pytest.fixture(autouse=True)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide GPUs from this process and those that it starts, or ask for one."""
    mark = request.node.get_closest_marker("gpu")
    if mark is None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
        monkeypatch.setattr("torch.cuda.is_available", lambda: False)
        return
    if not IS_THERE:
        pytest.skip("needs a GPU")
    if mark.kwargs.get("shared") and not one_gpu.can_be_shared():
        pytest.skip("needs NCCL 2.30, by which several processes can share a GPU")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", GPUS)
