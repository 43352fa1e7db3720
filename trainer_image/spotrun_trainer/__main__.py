"""The command line `python -m spotrun_trainer`, where the console script `spotrun` is missing."""

import sys

from spotrun_trainer.checkpoint.tools import command_line as checkpoints
from spotrun_trainer.data.prepare import command_line as data

if __name__ == "__main__":
    main = data.main if sys.argv[1:2] == ["data"] else checkpoints.main
    sys.exit(main())
