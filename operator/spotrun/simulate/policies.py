"""The policies that can be replayed, by their names on the command line."""

from collections.abc import Callable

from spotrun.simulate import replay
from spotrun.simulate.market.virtual_market import VirtualMarket
from spotrun.simulate.outcome import Course
from spotrun.simulate.peers import greedy, on_demand, ticks, uniform_progress
from spotrun.simulate.peers.ticks import Wish
from spotrun.simulate.scenario import Job, Rules

Player = Callable[[Job, VirtualMarket, Rules], Course]


def player(policy: str) -> Player:
    """Return the player of a policy; raises ValueError if a library that it needs is missing."""
    if policy == "optimum":
        return _optimum()
    if policy in _PEERS:
        return _peer(_PEERS[policy])
    assert policy == "spotrun", f"there is no policy {policy!r}"
    return replay.play


_PEERS: dict[str, Wish] = {
    "greedy": greedy.wish,
    "uniform-progress": uniform_progress.wish,
    "on-demand": on_demand.wish,
}


def _peer(wish: Wish) -> Player:
    return lambda job, market, rules: ticks.play(wish, job, market, rules)


def _optimum() -> Player:
    # Imported here, because only this part needs numpy, which the operator does not have.
    try:
        from spotrun.simulate.peers import optimum  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ValueError(f"the optimum needs numpy ({error}): pip install numpy") from error

    def play(job: Job, market: VirtualMarket, rules: Rules) -> Course:
        # If no course meets the deadline, on-demand is late by the least.
        best = optimum.play(job, market, rules)
        return best or ticks.play(on_demand.wish, job, market, rules)

    return play
