"""A device that the node lacks, or that torch was built without.

First cause: rank ? ended with exit code 1: ... no_gpu.py:L in <module>
"""

import torch

print(torch.zeros(1, device="cuda"))
