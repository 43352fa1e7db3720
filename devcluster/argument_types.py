"""Types of command line arguments, for `type` of argparse, which say why a value will not do.

Benches and the demo use them as well, whose `--help` comes at once: no library is imported here.
"""

import argparse
from pathlib import Path


def how_many(text: str) -> int:
    """Read a count from 1 on: nothing can be said of none."""
    if not (text.isascii() and text.isdigit() and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not how many: use 1, 2, 3 ...")
    return int(text)


def existing_folder(text: str) -> Path:
    """A folder that is there."""
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is no folder: name one that is there")
    return Path(text)


def writable_file(text: str) -> Path:
    """A file that can be written; it is left as it is, and none is made."""
    file = Path(text)
    is_new = not file.exists()
    try:
        file.open("ab").close()
    except OSError as error:
        raise argparse.ArgumentTypeError(unwritable(text, error)) from None
    if is_new:
        file.resolve().unlink()
    return file


def unwritable(file: str, error: OSError) -> str:
    """Why a file cannot be written, and what to do."""
    return (
        f"{file!r} cannot be written: {error.strerror}. Name a file in a folder that exists and "
        "that you may write to"
    )
