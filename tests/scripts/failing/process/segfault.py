"""A library that reads where nothing is.

First cause: rank 1 was killed by SIGSEGV: Fatal Python error: Segmentation fault at
__init__.py:L in string_at < segfault.py:L in step < segfault.py:L in <module>
"""

import ctypes
import os
import time


def step() -> None:
    if os.environ["RANK"] == "1":
        # As a kernel with a wrong pointer.
        ctypes.string_at(0)
    time.sleep(600)


if __name__ == "__main__":
    step()
