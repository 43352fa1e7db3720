"""The command line `python -m spotrun_trainer`, where the console script `spotrun` is not there."""

import sys

from spotrun_trainer.checkpoint.tools.command_line import main

if __name__ == "__main__":
    sys.exit(main())
