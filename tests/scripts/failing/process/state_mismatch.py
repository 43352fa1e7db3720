"""A checkpoint of a model with other shapes.

First cause: rank ? ended with exit code 1: RuntimeError: Error(s) in loading state_dict for
Linear: size mismatch for weight: copying a param with shape torch.Size([10, 10])
"""

from torch import nn

saved = nn.Linear(10, 10).state_dict()
nn.Linear(10, 20).load_state_dict(saved)
