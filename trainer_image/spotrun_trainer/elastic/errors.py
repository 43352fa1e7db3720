"""How a world ends under a process: exceptions that all between group and loop know."""


class PeerLostError(Exception):
    """A collective cannot complete, because a process of the world is gone."""


class LeftError(PeerLostError):
    """A process of the world ends, as all of it agreed between two steps: nothing is under way."""


class StrandedError(Exception):
    """This process cannot go on in the world that it came to; a new one in its place can."""


class WorldChangedError(Exception):
    """There is another world by now, and what was under way when the last one broke was dropped."""
