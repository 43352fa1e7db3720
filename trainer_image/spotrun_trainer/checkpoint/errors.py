"""What can be wrong with a checkpoint."""


class CheckpointError(Exception):
    """A checkpoint could not be written or finished; training itself is unharmed."""


class DamagedCheckpointError(Exception):
    """A checkpoint is not what was written: another one must be loaded.

    Content is verified while it is read, so what was tracked may hold parts of it by now; loading
    another checkpoint overwrites them.
    """
