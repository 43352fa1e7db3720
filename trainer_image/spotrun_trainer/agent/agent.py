"""The agent of one worker: it answers torchrun's questions from what its threads have learned."""

import ssl
from collections.abc import Callable

from spotrun.wire import Ending, LastWords, Notice, World
from spotrun_trainer.agent import next_action
from spotrun_trainer.agent.exit_barrier import ExitBarrier
from spotrun_trainer.agent.heartbeat import Heartbeats
from spotrun_trainer.agent.next_action import Known
from spotrun_trainer.agent.operator_connection import Contact, OperatorConnection
from spotrun_trainer.agent.operator_threads import Operator, OperatorThreads
from spotrun_trainer.agent.settings import Settings
from spotrun_trainer.agent.state import State
from spotrun_trainer.agent.stores import Stores
from spotrun_trainer.agent.termination_log import TerminationLog
from spotrun_trainer.telemetry.gpu.gpu_watch import watch_gpus

_POLL_SECONDS = 40.0  # the operator holds a poll for 24 s at most
_REPORT_SECONDS = 10.0
_LOOK_SECONDS = 0.5  # between checks of clocks; all other changes notify
_FLUSH_SECONDS = 3.0

Connect = Callable[[Settings, Contact, float], Operator]


def connect(settings: Settings, contact: Contact, timeout_seconds: float) -> Operator:
    """Open a connection to the operator over TLS."""
    tls = ssl.create_default_context(cadata=settings.authorities)
    return OperatorConnection(settings, tls, contact, timeout_seconds=timeout_seconds)


class Agent:
    """One worker's agent; it talks to the operator from its construction until it is closed."""

    def __init__(self, settings: Settings, connect: Connect = connect) -> None:
        settings.directory.mkdir(parents=True, exist_ok=True)
        self._contact = Contact(settings.server)
        self._stores = Stores(settings.address)
        self._state = State(settings, self._stores, gpus=watch_gpus())
        self._termination_log = TerminationLog(settings.last_words)
        self._heartbeats = Heartbeats(settings.address, self._state.suspect)
        self._operator_threads = OperatorThreads(
            self._state,
            connect(settings, self._contact, _POLL_SECONDS),
            connect(settings, self._contact, _REPORT_SECONDS),
        )

    def next_world(self) -> World | LastWords:
        """Wait for a world to enter; return last words if this worker gets no world any more."""
        state = self._state
        with state.news:
            state.wait()
            while (found := next_action.next_world(self._known())) is None:
                state.news.wait(_LOOK_SECONDS)
            if isinstance(found, World):
                state.enter(found)
                self._heartbeats.follow(found)
        return found

    def must_stop(self) -> bool:
        """Whether the processes must be stopped for another world."""
        state = self._state
        with state.news:
            if state.entered is not None:
                self._heartbeats.follow(state.entered)  # its neighbours' addresses may arrive later
            return next_action.must_stop(self._known())

    def may_save(self) -> bool:
        """Whether processes that must be stopped have time to save."""
        with self._state.news:
            return next_action.may_save(self._known())

    def is_urgent(self) -> bool:
        """Whether the time that processes were given to save is over."""
        with self._state.news:
            return next_action.is_urgent(self._known())

    def may_restart(self) -> bool:
        """Whether the next world is likely to need new processes."""
        with self._state.news:
            return not self._known().progress.in_process

    @property
    def notice(self) -> Notice | None:
        """The notice that a node of this job goes away; None without one."""
        with self._state.news:
            answer = self._known().answer
        return answer.notice if answer is not None else None

    def fail(self, exit_code: int, message: str) -> None:
        """Note that a training process ended with an error."""
        self._state.fail(exit_code, message)

    def leave(self) -> None:
        """Note that a signal ends the worker; its processes end by themselves."""
        self._state.leave()

    def fail_unless_known(self) -> None:
        """Report a failure if the processes ended without being asked to and no cause is known."""
        if self._state.entered is not None and not self._state.has_failed:
            self._state.fail(1, "a training process failed; its log says why")

    def finish(self) -> LastWords | None:
        """Wait for the processes of the other workers, once this worker's have ended well.

        Return None if this worker's processes are needed in another world.
        """
        state = self._state
        with state.news:
            state.look()  # the world that its processes were in last may not be known yet
            known = self._known()
        if known.progress.exiting is not None or state.entered is None:
            return next_action.words(Ending(known.progress.exiting or "departed"), known)
        barrier = ExitBarrier(state.entered, on_done=state.complete)
        while True:
            with state.news:
                known = self._known()
                is_left_behind = next_action.is_left_behind(known)
                is_done = next_action.has_succeeded(known) or (
                    is_left_behind and next_action.is_saved(known)
                )
                is_done = barrier.all_are_done or is_done
                if is_done and not next_action.waits_for_next_stage(known):
                    break
                if next_action.is_called_back(known):
                    return None
                if is_left_behind:
                    return next_action.words(
                        Ending.DEPARTED, known, "the other workers continue without it"
                    )
                state.news.wait(_LOOK_SECONDS)
        state.complete()
        self._operator_threads.flush(_FLUSH_SECONDS)
        barrier.wait()
        return next_action.words(Ending.COMPLETED, known)

    def end(self, words: LastWords | None = None) -> None:
        """Write the last words and stop all threads; None: a signal ended the worker."""
        if self._termination_log.is_written:
            return
        self._operator_threads.flush(_FLUSH_SECONDS)
        with self._state.news:
            words = words or next_action.end_by_signal(self._known())
        self._termination_log.write(words)
        self._operator_threads.close()
        self._heartbeats.close()
        self._stores.close()

    def _known(self) -> Known:
        return self._state.known(self._contact.away_seconds)
