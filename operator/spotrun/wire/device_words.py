"""The words by which the operator knows that a worker has ended because of its device."""

WRONG_DEVICE = "this device computes wrong numbers"
FAULTY_DEVICE = "this device is faulty"


def is_of_device(message: str) -> bool:
    """Whether a failure with this message comes from the worker's device."""
    return WRONG_DEVICE in message or FAULTY_DEVICE in message
