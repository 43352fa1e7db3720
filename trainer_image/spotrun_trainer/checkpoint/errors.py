"""The errors of checkpoints."""


class CheckpointError(Exception):
    """A checkpoint could not be written or finished; training itself is unharmed."""


class UnreadableCheckpointError(Exception):
    """A checkpoint's files exist but cannot be read, so it may be whole.

    The cause is a temporary fault of the storage; an older checkpoint would not help.
    """


class DamagedCheckpointError(Exception):
    """A checkpoint differs from what was written: another one must be loaded.

    Content is verified while it is read, so the tracked state may already hold parts of it; loading
    another checkpoint overwrites them.
    """
