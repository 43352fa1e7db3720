"""How a world ends under a process: two exceptions that everything between group and loop knows."""


class PeerLostError(Exception):
    """A collective cannot complete, because a process of the world is gone."""


class WorldChangedError(Exception):
    """There is another world by now, and what was under way when the last one broke was dropped."""
