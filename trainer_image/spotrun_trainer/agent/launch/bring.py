"""The program of the init container: `python3 -m spotrun_trainer.agent.launch.bring FOLDER`."""

import sys
from pathlib import Path

from spotrun_trainer.agent.launch.package import bring


def main() -> None:
    """Copy the package into the folder that the command names."""
    (folder,) = sys.argv[1:]
    try:
        brought = bring(Path(folder))
    except OSError as error:
        words = f"spotrun could not be copied for the worker's image: {error}"
        raise SystemExit(words) from error
    print(f"spotrun {brought.version}, sha256 {brought.checksum[:12]}, is in {folder}")


if __name__ == "__main__":
    main()
