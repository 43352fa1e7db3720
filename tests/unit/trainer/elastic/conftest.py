import torch

torch.set_num_threads(1)  # two cores are shared with other tests
