"""A data set that no other process can be given: its transform is a lambda.

First cause: rank ? ended with exit code 1: ... Can't ... local object ... lambda
"""

from collections.abc import Callable

from torch.utils.data import DataLoader, Dataset
from typing_extensions import override


class Data(Dataset[int]):
    def __init__(self) -> None:
        self.transform: Callable[[int], int] = lambda index: index + 1

    def __len__(self) -> int:
        return 10

    @override
    def __getitem__(self, index: int) -> int:
        return self.transform(index)


def main() -> None:
    for batch in DataLoader(Data(), num_workers=1, multiprocessing_context="spawn"):
        print(batch)


if __name__ == "__main__":
    main()
