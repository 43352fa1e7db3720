"""Types of command line arguments, for `type` of argparse, which explain why a value is wrong.

Benches and the demo use them as well. No library is imported here, so that `--help` is fast.
"""

import argparse
from pathlib import Path


def how_many(text: str) -> int:
    """Read a count of at least 1."""
    if not (text.isascii() and text.isdigit() and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a count: use 1, 2, 3 ...")
    return int(text)


def existing_folder(text: str) -> Path:
    """An existing folder."""
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is not a folder: name an existing one")
    return Path(text)


def writable_file(text: str) -> Path:
    """A file that can be written; this check neither changes nor creates it."""
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
    """Explain why a file cannot be written, and what to do."""
    return (
        f"{file!r} cannot be written: {error.strerror}. Name a file in a folder that exists and "
        "that you may write to"
    )
