"""torchtitan's training as its own `train.py` has it, and one call more; it takes the same options.

On spot nodes that come and go: `kubectl apply -f examples/torchtitan-train.yaml`.
"""

import torch.distributed as dist
from torchtitan.config import ConfigManager
from torchtitan.tools.logging import init_logger

from spotrun_trainer.integrations.torchtitan import follow


def main() -> None:
    init_logger()
    trainer = ConfigManager().parse_args().build()
    follow(trainer)
    try:
        trainer.train()
    finally:
        trainer.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
