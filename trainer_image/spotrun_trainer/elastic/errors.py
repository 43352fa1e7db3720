"""The exceptions by which a world ends for a process, from the group up to the loop."""


class PeerLostError(Exception):
    """A collective cannot complete, because a process of the world is gone."""


class LeftError(PeerLostError):
    """A process of the world leaves between two steps, as all agreed: nothing is in flight."""


class StrandedError(Exception):
    """This process cannot continue in the present world; a new process in its place can."""


class WorldChangedError(Exception):
    """Another world has begun, and what was in flight when the last one broke was dropped."""
