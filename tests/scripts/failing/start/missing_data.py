"""A data set at a place that is not mounted.

First cause: rank ? ended with exit code 1: FileNotFoundError: [Errno 2] No such file or
directory: '/data/train.bin' at ... missing_data.py:L in tokens
"""

from pathlib import Path


def tokens() -> bytes:
    return Path("/data/train.bin").read_bytes()


print(len(tokens()))
