"""The rendezvous that torchrun asks, answered by the agent.

torchrun asks for the next world, and ten times a second whether there is another. Comments name the
places in torch that need a workaround, as read in version 2.15.
"""

import atexit
import logging
import os
import signal
import sys
from types import FrameType
from typing import NoReturn

from torch.distributed import HashStore  # type: ignore[attr-defined]  # not in its __all__
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.rendezvous.api import (
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousStoreInfo,
)
from typing_extensions import override

from spotrun.wire import Ending, LastWords, World
from spotrun_trainer.agent.agent import Agent
from spotrun_trainer.agent.next_action import batch_words, place, workers
from spotrun_trainer.agent.processes.environment import prepare
from spotrun_trainer.agent.processes.exit_codes import watch_failures, watch_success
from spotrun_trainer.agent.processes.kill import kill_sessions
from spotrun_trainer.agent.processes.notice_signal import NoticeSignal, signal_asked_for
from spotrun_trainer.agent.processes.output_tail import watch_output
from spotrun_trainer.agent.processes.sessions import leaders
from spotrun_trainer.agent.processes.stage_start import StageStart
from spotrun_trainer.agent.processes.stop import Stopping
from spotrun_trainer.agent.processes.torchrun_shutdown import watch_signals
from spotrun_trainer.agent.processes.warm.pool import Interpreters, begin_ahead
from spotrun_trainer.agent.settings import Settings, read_settings
from spotrun_trainer.agent.termination_log import TerminationLog
from spotrun_trainer.checkpoint import make_writable
from spotrun_trainer.checkpoint.tiers.server import serve_tier
from spotrun_trainer.process.addresses import split_address
from spotrun_trainer.process.node_memory import offer_memory
from spotrun_trainer.telemetry.container_usage import oom_kills
from spotrun_trainer.telemetry.trace import Trace, open_trace

BACKEND = "spotrun"

log = logging.getLogger(__name__)

_EXIT_BARRIER = "torchelastic/agent/terminal_state/last_member"


class SpotrunRendezvous(RendezvousHandler):
    """Torchrun's side of the agent; called by its main thread only."""

    def __init__(
        self,
        agent: Agent,
        run_id: str,
        trace: Trace,
        interpreters: Interpreters,
        stopping: Stopping,
        *,
        notice_signal: NoticeSignal,
        stage_start: StageStart,
    ) -> None:
        self._agent = agent
        self._stopping = stopping
        self._notice_signal = notice_signal
        self._stage_start = stage_start
        self._interpreters = interpreters
        self._run_id = run_id
        self._trace = trace
        self._was_stopped = False
        self._words: LastWords | None = None

    @override
    def next_rendezvous(self) -> RendezvousInfo:
        """Wait for a world that this worker is in, and return where its processes meet."""
        if not self._was_stopped:
            self._agent.fail_unless_known()
        found = self._agent.next_world()
        if isinstance(found, LastWords):
            self._words = found
            # Not RendezvousGracefulExitError: torchrun then fails over the missing result.
            raise SystemExit(found.exit_code or 0)
        self._was_stopped = False
        self._interpreters.follow(found.processes)
        if words := batch_words(found):
            log.warning("%s", words)
        self._stage_start.begin(found.stage)
        os.environ["SPOTRUN_WORLD_NUMBER"] = str(found.number)
        return _info(found)

    @override
    def num_nodes_waiting(self) -> int:
        """Return 1 if the processes must be stopped; this method has then killed them already."""
        self._notice_signal.look(self._agent.notice)
        if not self._agent.must_stop():
            self._interpreters.look(are_of_use=self._agent.may_restart())
            return 0
        self._was_stopped = True
        self.end_processes()
        self._trace.mark("killed")
        return 1

    def end_processes(self) -> None:
        """End the training processes: in order where they may save, else at once."""
        if self._agent.may_save() and self._agent.must_stop():
            self._stopping.stop(is_urgent=self._agent.is_urgent)
        else:
            kill_sessions(but=self._interpreters.pids)

    def finish(self) -> bool:
        """Whether processes that have ended well were the last ones of this worker."""
        self._words = self._agent.finish()
        return self._words is not None

    @override
    def shutdown(self) -> bool:
        """Write the last words where torchrun ends without a signal: well, or with an exception."""
        error = sys.exc_info()[1]
        try:
            if self._words is None and error is None:
                self._words = self._agent.finish()
        except SignalException:
            self._agent.end()
            raise
        if self._words is None:
            why = f"torchrun ended with {type(error).__name__}: {error}"
            self._words = LastWords(Ending.FAILED, exit_code=1, message=why)
        self._agent.end(self._words)
        return True

    @property
    @override
    def use_agent_store(self) -> bool:
        """Return True: processes are clients of the world's store, which an agent hosts."""
        return True

    @override
    def get_backend(self) -> str:
        return BACKEND

    @override
    def get_run_id(self) -> str:
        return self._run_id

    @override
    def is_closed(self) -> bool:
        return False

    @override
    def set_closed(self) -> None:
        """Do nothing: only the operator ends a job."""


def make_handler(parameters: RendezvousParameters) -> RendezvousHandler:
    """Make the handler of this worker, and its agent; raises ValueError outside of a worker."""
    _show_log()
    prepare(os.environ)
    # All workers have the same number of processes, so ranks need no exchange through a store: it
    # would block for 300 s where a member is gone (`SimpleElasticAgent._assign_worker_ranks`).
    os.environ["TORCH_ELASTIC_WORKER_IDENTICAL"] = "1"
    settings = read_settings()
    _make_folder(settings)
    agent = Agent(settings)
    trace = open_trace()
    offer_memory(os.environ)
    serve_tier(os.environ, settings.address, settings.directory)
    interpreters = begin_ahead(os.environ, trace)
    watch_output(os.environ)
    stopping = Stopping(settings.grace_seconds, spared=lambda: interpreters.pids)
    notices = NoticeSignal(signal_asked_for(os.environ), lambda: leaders(interpreters.pids))
    watch_signals(agent.leave, stopping.stop)
    # torchrun handles signals only once processes run; a spare worker would
    # die without last words, and as process 1 of a container not at all.
    signal.signal(signal.SIGTERM, _raise_signal)
    # A signal ends torchrun without `shutdown`.
    atexit.register(agent.end)
    stage_start = StageStart()
    stage_start.watch()
    handler = SpotrunRendezvous(
        agent,
        parameters.run_id,
        trace,
        interpreters,
        stopping,
        notice_signal=notices,
        stage_start=stage_start,
    )
    watch_success(handler.finish)
    watch_failures(
        agent.fail, end_siblings=handler.end_processes, oom_kills=lambda: oom_kills(os.getpid())
    )
    return handler


def _make_folder(settings: Settings) -> None:
    """Make the job's folder for checkpoints, writable for any script; else end the worker."""
    if settings.checkpoints is None:
        return
    try:
        make_writable(settings.checkpoints, is_shared=True)
    except ValueError as error:
        words = LastWords(Ending.FAILED, exit_code=1, message=str(error))
        TerminationLog(settings.last_words).write(words)
        raise SystemExit(1) from error


def _info(world: World) -> RendezvousInfo:
    assert world.store is not None, "a world is entered when it has one"
    host, port = split_address(world.store)
    # All that torchrun does with this store is a barrier at its end (`_exit_barrier`), of up to
    # 300 s and not to be interrupted. It is passed at once; `Agent.finish` waits instead.
    barrier = HashStore()
    barrier.set(_EXIT_BARRIER, "")
    return RendezvousInfo(barrier, place(world), workers(world), RendezvousStoreInfo(host, port))


def _raise_signal(number: int, _frame: FrameType | None) -> NoReturn:
    name = signal.Signals(number)
    raise SignalException(f"Process {os.getpid()} got signal: {name}", sigval=name)


def _show_log() -> None:
    """Show our log lines beside torchrun's, which sets up its own loggers only."""
    ours = logging.getLogger("spotrun_trainer")
    if not ours.handlers and not logging.getLogger().handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s spotrun %(levelname)s %(message)s"))
        ours.addHandler(handler)
        ours.setLevel(logging.INFO)
        ours.propagate = False
