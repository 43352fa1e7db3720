"""Arguments that several commands read, with their errors as argparse says them."""

from argparse import ArgumentTypeError

from spotrun_trainer.process.commands.texts import bytes_of_text


def size_argument(text: str) -> int:
    """Read a size such as 5GB as bytes."""
    try:
        return bytes_of_text(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from error
