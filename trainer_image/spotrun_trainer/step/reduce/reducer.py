"""Sums of buckets over the group, in one order for all processes."""

from collections import deque
from collections.abc import Sequence
from contextlib import suppress

from spotrun_trainer.elastic.errors import PeerLostError
from spotrun_trainer.elastic.pending_collectives import Done
from spotrun_trainer.elastic.process_group import Group
from spotrun_trainer.step.reduce.bucket import BUCKET_BYTES, Bucket
from spotrun_trainer.step.reduce.compression import Compression
from spotrun_trainer.step.reduce.exchange import Rounds

APART_BYTES = 4 * BUCKET_BYTES
"""The most memory for sums in flight that leave their summands unchanged: gloo's two threads work
on two buckets, and two more wait."""


class Reducer:
    """Sums buckets, of one optimizer or of several, over the group.

    When a phase begins, all processes know the same buckets that it ends with; so complete ones are
    sent while the last backward still runs, in an order common to all.
    """

    def __init__(
        self, group: Group, compression: Compression | None = None, *, keeps: bool = False
    ) -> None:
        self.group = group
        self.compression = compression
        self.keeps = keeps  # computed microbatches are kept when the world breaks
        self.order: Sequence[Bucket] = ()  # of the current phase
        self._due: Sequence[Bucket] = ()
        self._num_sent = 0  # of the buckets in `_due`
        self._in_flight = deque[Bucket]()  # the buckets that are summed apart, in their order

    def sums_apart(self, bucket: Bucket) -> bool:
        """Whether the sum leaves its summands unchanged until it is complete.

        Over NCCL the step is computed again after a loss, and a single process sums nothing. A
        single parameter may be so large that this would take too much memory.
        """
        is_of_many = self.group.size > 1 and not self.group.is_nccl
        return self.keeps and is_of_many and bucket.flat.nbytes <= APART_BYTES

    def expect(self, buckets: Sequence[Bucket]) -> None:
        """Set the buckets to sum in the current phase, in this order."""
        self.order, self._in_flight = buckets, deque()
        self._expect(buckets)

    def _expect(self, buckets: Sequence[Bucket]) -> None:
        self._due, self._num_sent = buckets, 0

    def send_complete(self) -> None:
        """Send each complete bucket if the previous ones are sent.

        The loss of a peer is raised later, by `finish`, so that the microbatch is completed.
        """
        with suppress(PeerLostError):
            self._send_complete()

    def _send_complete(self) -> None:
        while self._num_sent < len(self._due) and self._due[self._num_sent].is_complete:
            bucket = self._due[self._num_sent]
            if not self._has_room(bucket):
                return  # the backward continues; the bucket is sent later
            if not self.sums_apart(bucket):
                bucket.take()
            self._send(bucket)
            self._num_sent += 1

    def finish(self, buckets: Sequence[Bucket], *, are_dropped: bool = False) -> None:
        """Return when these and all expected buckets are summed: other processes may wait for them.

        It waits for unused buckets, too, because a collective still writes to their tensors.
        Expected buckets come first, by themselves: a process that gives up a step takes part only
        in these before it votes (`are_dropped`), and in the others after that.
        """
        due = dict.fromkeys(self._due)
        more = [bucket for bucket in buckets if bucket not in due]
        self._expect(())
        for several in (list(due), more):
            self._finish(several, are_dropped=are_dropped)

    def _finish(self, buckets: Sequence[Bucket], *, are_dropped: bool) -> None:
        for bucket in buckets:
            if bucket.work is None:
                while not self._has_room(bucket):
                    self._settle_oldest()
                self._send(bucket, is_dropped=are_dropped)
        while self._in_flight:
            self._settle_oldest()
        rounds = [bucket.work for bucket in buckets if isinstance(bucket.work, Rounds)]
        while rounds:  # the next round of each sum
            rounds = [one for one in rounds if one.go_on()]
        for bucket in buckets:
            assert bucket.work is not None, "sent"
            bucket.work.wait()
            bucket.work = Done()  # so that no other optimizer waits again
            bucket.is_summed |= self.keeps and self.group.size > 1

    def _send(self, bucket: Bucket, *, is_dropped: bool = False) -> None:
        if self.sums_apart(bucket) and not is_dropped:
            bucket.work = bucket.send_apart(self.group)
            self._in_flight.append(bucket)
        else:
            bucket.work = bucket.send(self.group, is_dropped=is_dropped)

    def _has_room(self, bucket: Bucket) -> bool:
        if not self.sums_apart(bucket):
            return True
        while self._in_flight and self._in_flight[0].is_there:
            self._settle_oldest()
        in_flight = sum(each.flat.nbytes for each in self._in_flight)
        return not in_flight or in_flight + bucket.flat.nbytes <= APART_BYTES

    def _settle_oldest(self) -> None:
        bucket = self._in_flight[0]
        assert bucket.work is not None, "sent"
        bucket.work.wait()
        bucket.settle()
        self._in_flight.popleft()
