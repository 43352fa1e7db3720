"""What can be wrong with a checkpoint."""


class CheckpointError(Exception):
    """A checkpoint could not be written or finished; training itself is unharmed."""


class UnreadableCheckpointError(Exception):
    """Nobody knows whether a checkpoint is whole: its files are there, and cannot be read.

    That comes from where they are kept, and passes; an older checkpoint would be no help.
    """


class DamagedCheckpointError(Exception):
    """A checkpoint is not what was written: another one must be loaded.

    Content is verified while it is read, so what was tracked may hold parts of it by now; loading
    another checkpoint overwrites them.
    """
