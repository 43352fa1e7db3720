"""Saves to a store that fails one request in ten, by processes that are killed at any moment."""

import random
import signal
import time
from multiprocessing.connection import Connection

import torch

from bench.operator_bench import say
from devcluster.s3.server import Server
from spotrun_trainer.checkpoint import CheckpointError, Checkpoints
from spotrun_trainer.checkpoint.format.names import Name
from spotrun_trainer.state.tracked import Tracked
from tests.faults.store_proxy import PASSING, Fault, disturbing
from tests.support.processes.trainer_world import SERVER

SHARE = 0.10
ELEMENTS = 5_000_000  # 20 MB: two parts
MOST_BETWEEN_KILLS = 10
PATIENCE_SECONDS = 300.0


class Held:
    """A state whose bits all follow from its step."""

    def __init__(self, step: int) -> None:
        self.content = {"x": content(step), "step": step}

    def state_dict(self) -> dict[str, object]:
        """Return the state."""
        return dict(self.content)

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Load another state."""
        self.content = dict(state)


def content(step: int) -> torch.Tensor:
    """Return the tensor of a step."""
    return torch.randint(2**31, (ELEMENTS,), generator=torch.Generator().manual_seed(step)).int()


def be_a_training(address: str, env: dict[str, str], told: Connection) -> None:
    """Continue from the newest checkpoint, and save every step until killed; report the saves."""
    import os  # noqa: PLC0415 - the environment of this process

    os.environ.update(env)
    torch.set_num_threads(1)
    opened = Checkpoints(address, keep=2)
    newest = opened.newest()
    step = Name.parse(newest).step + 1 if newest else 0
    while True:
        held = Tracked()
        held.add("held", Held(step))
        try:
            opened.save(f"step-{step}.g1", held.flatten(), rank=0, size=1, extra={})
            opened.wait(PATIENCE_SECONDS)
            saved = opened.finished()
        except CheckpointError as error:
            told.send(str(error))
            continue
        if saved is not None:
            told.send(step)
            opened.prune(saved.name, world_number=1)
            step += 1


def survive(server: Server, address: str, saves: int, seed: int) -> None:
    """Count acknowledged saves that are not found again, and those with wrong bits."""
    dice = random.Random(seed)  # noqa: S311 - no secrets
    acknowledged, lost, corrupt, kills, failed = -1, 0, 0, 0, 0
    with disturbing(server.url, seed) as proxy:
        proxy.faults += [Fault(action, share=SHARE / len(PASSING)) for action in PASSING]
        env = server.environment(proxy.url)
        while acknowledged + 1 < saves:
            acknowledged, failures = _until_killed(address, env, acknowledged, saves, dice)
            kills, failed = kills + 1, failed + failures
            is_there, is_whole = _found(address, acknowledged)
            lost, corrupt = lost + (not is_there), corrupt + (not is_whole)
        requests, struck = len(proxy.log), sum(one.struck for one in proxy.faults)
    facts = {"saves": saves, "kills": kills, "requests": requests, "struck": struck}
    say("store_lost", lost, "saves", failed_saves=failed, **facts)
    say("store_corrupt", corrupt, "saves", **facts)


def _until_killed(
    address: str, env: dict[str, str], acknowledged: int, saves: int, dice: random.Random
) -> tuple[int, int]:
    """Let a process save some steps; return the last one reported, and the number of failures."""
    ours, theirs = SERVER.Pipe()
    child = SERVER.Process(target=be_a_training, args=(address, env, theirs))
    child.start()
    until, failures = time.monotonic() + PATIENCE_SECONDS, 0
    wanted = min(saves - 1, acknowledged + dice.randint(1, MOST_BETWEEN_KILLS))
    while acknowledged < wanted:
        assert ours.poll(until - time.monotonic()), "no step was saved for minutes"
        if isinstance(said := ours.recv(), int):
            acknowledged = said
        else:
            failures += 1
    time.sleep(dice.uniform(0, 0.5))  # during the next save
    assert child.pid
    child.kill()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    while ours.poll(0):  # earlier reports
        try:
            said = ours.recv()
        except EOFError:
            break
        acknowledged = said if isinstance(said, int) else acknowledged
    return acknowledged, failures


def _found(address: str, acknowledged: int) -> tuple[bool, bool]:
    """Whether the step, or a later one, is the newest, and whether all its bits are right."""
    opened, held = Checkpoints(address, keep=2), Held(-1)
    tracked = Tracked()
    tracked.add("held", held)
    newest = opened.newest()
    step = Name.parse(newest).step if newest else -1
    if newest is not None:
        opened.load(newest, tracked)
    opened.close()
    is_whole = held.content["step"] == step and torch.equal(held.content["x"], content(step))  # type: ignore[arg-type]
    return step >= acknowledged, is_whole
