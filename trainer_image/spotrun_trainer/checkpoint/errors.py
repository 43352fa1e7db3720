"""The errors of checkpoints."""


class CheckpointError(Exception):
    """A checkpoint could not be written or finished; training itself is unharmed."""


class UnreadableCheckpointError(Exception):
    """A checkpoint's files exist but cannot be read, so it may be whole.

    The cause is the storage, and passes; an older checkpoint would be no help.
    """


class DamagedCheckpointError(Exception):
    """A checkpoint is not what was written: another one must be loaded.

    Content is verified while it is read, so what was tracked may hold parts of it by now; loading
    another checkpoint overwrites them.
    """
