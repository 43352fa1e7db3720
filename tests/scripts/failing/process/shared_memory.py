"""Too little /dev/shm: a worker of a DataLoader gets SIGBUS; here it gets it without that.

First cause: rank ? ended with exit code 1: shared memory is full ...: mount an emptyDir with
medium Memory at /dev/shm, ...
"""

import os
import signal

import torch
from torch.utils.data import DataLoader, Dataset
from typing_extensions import override


class Data(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 100

    @override
    def __getitem__(self, index: int) -> torch.Tensor:
        if index == 50:
            os.kill(os.getpid(), signal.SIGBUS)
        return torch.zeros(10)


for batch in DataLoader(Data(), batch_size=10, num_workers=1):
    print(len(batch))
