"""Every run of a few members' streams that a design of the commit allows, one state after another.

A member has a stream, which runs its kernels in their order, and a host, which is at most one step
ahead of what it knows to be applied. At any moment a host may abort a communicator, and a member
may be killed. A collective is complete at a member, at some moment or never, once all its members
have begun it. On an aborted communicator it ends early and leaves anything between its own share
and the result; one that begins there takes no part.

When all hosts that live have aborted and their streams are empty, they meet, and those behind have
to apply what another has applied, from the sums that they hold: nobody is sent any state (ADR 4).
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain
from typing import NamedTuple

from tests.support.gpu.device_commit.designs import Design, Kernel, Kind

SHARE, WHOLE, WRONG = 0, 1, 2
"""The contents of a sum: a part of the shares, those of all, or a share of other weights."""

_NOT_ABORTED = -1


class Fault(Enum):
    """A state that must never be reached."""

    WRONG_SUM = "an optimizer ran with a sum that is not that of all"
    TWO_APART = "two members are more than one step apart"
    STRANDED = "a member cannot apply what another has applied: it does not hold the sum"


class Member(NamedTuple):
    """The host and the device of one member."""

    sums: tuple[tuple[int, int], ...]  # (step, what they hold), one for each place of sums
    done: int = 0  # kernels that have ended, of all steps
    has_begun: bool = False  # the collective after those
    aborted: int = 0  # a bit for each communicator
    aborted_at: int = _NOT_ABORTED  # `done` at the first abort
    queued: int = 0  # at the first abort: the kernels that were in the stream, done ones included
    is_alive: bool = True
    begun: int = 0  # a bit for each collective of the run that it has taken part in
    bad: int = 0  # a bit for each of those to which it gave no right share
    applied: int = 0
    has_canary: bool = True  # those of this step's earlier communicators
    has_flag: bool = False
    has_numbers: bool = True  # that ride on the commit
    is_wrong: bool = False


State = tuple[Member, ...]


@dataclass
class Found:
    """The results of an exploration."""

    states: int = 0
    ends: int = 0
    faults: Counter[Fault] = field(default_factory=Counter)


def explore(design: Design, *, until_first_fault: bool = False) -> Found:
    """Visit every state that can be reached, or those before the first with a fault."""
    first = (_new_member(design),) * design.members
    found, seen, ahead = Found(), {first}, [first]
    while ahead and not (until_first_fault and found.faults):
        state = ahead.pop()
        found.states += 1
        found.ends += _has_ended(state, design)
        found.faults.update(_faults(state, design))
        for moved in _moves(state, design):
            following = _without_names(moved, design)
            if following not in seen:
                seen.add(following)
                ahead.append(following)
    return found


def _new_member(design: Design) -> Member:
    places = 2 if design.sums_are_kept else 1
    return Member(sums=((-1, SHARE),) * places)


def _has_ended(state: State, design: Design) -> bool:
    return all(
        one.aborted and one.done == _in_stream(one, design) and not one.has_begun
        for one in state
        if one.is_alive
    )


def _faults(state: State, design: Design) -> Iterator[Fault]:
    """Yield what is wrong in a state; what can still be mended counts at its end."""
    alive = [one for one in state if one.is_alive]
    if any(one.is_wrong for one in alive):
        yield Fault.WRONG_SUM
    newest = max(one.applied for one in alive)
    behind = [one for one in alive if one.applied < newest]
    if any(one.applied < newest - 1 for one in behind):
        yield Fault.TWO_APART
    if _has_ended(state, design) and any((newest - 1, WHOLE) not in one.sums for one in behind):
        yield Fault.STRANDED


def _moves(state: State, design: Design) -> Iterator[State]:
    killed = sum(not one.is_alive for one in state)
    for number, member in enumerate(state):
        if not member.is_alive:
            continue
        if killed < design.kills:  # what a dead member held is of no use to anybody
            dead = _new_member(design)._replace(begun=member.begun, bad=member.bad)
            yield _with(state, number, dead._replace(is_alive=False))
        for aborted in _aborts(member, design):
            yield _with(state, number, _run_on(aborted, design))
        if member.done < _in_stream(member, design):
            yield from _runs(state, number, design)


def _in_stream(member: Member, design: Design) -> int:
    """Return how many kernels the host may have put into the stream by now."""
    if design.host_waits:
        return _known_to_host(member, design)
    if member.aborted:
        return member.queued
    # One step ahead: the step before the newest in the stream need not be known yet.
    return min(member.applied + 2, design.steps) * len(design.kernels)


def _known_to_host(member: Member, design: Design) -> int:
    """Return the kernels up to the flag that the host waits for, or up to the one that it saw."""
    size = len(design.kernels)
    step, place = divmod(member.done, size)
    if step == design.steps:
        return member.done
    flag = step * size + size - 1
    return flag + (place == size - 1 and member.has_flag)


def _aborts(member: Member, design: Design) -> Iterator[Member]:
    for bit in design.communicators:
        if member.aborted & bit:
            continue
        aborted = member._replace(aborted=member.aborted | bit)
        if member.aborted:
            yield aborted
            continue
        last = _in_stream(member, design)
        has_all = design.host_is_whole_steps_ahead or design.host_waits
        first = last if has_all else member.done + member.has_begun
        for queued in range(first, last + 1):
            yield aborted._replace(queued=queued, aborted_at=member.done)


def _run_on(member: Member, design: Design) -> Member:
    """Return a member whose communicators are all aborted after the rest of its stream.

    Nobody sees that rest: no collective there takes part in anything. So its moments need not be
    told apart from those of other members.
    """
    if not design.abort_is_for_ever or member.aborted != sum(design.communicators):
        return member
    while member.done < _in_stream(member, design) and not member.has_begun:
        member = _run_alone(member, design)
    return member


def _run_alone(member: Member, design: Design) -> Member:
    """Return a member after its next kernel, one that takes part in no collective."""
    step, place = divmod(member.done, len(design.kernels))
    kernel = design.kernels[place]
    after = member._replace(done=member.done + 1, has_begun=False)
    if kernel.kind is Kind.BEGIN:
        return _with_new_sums(after, step, SHARE, design)
    if kernel.kind is Kind.APPLY:
        return _applied(after, step, design)
    return _cut_off(after, kernel, design)


def _runs(state: State, number: int, design: Design) -> Iterator[State]:
    """Yield what the next kernel of a member's stream may lead to."""
    member = state[number]
    kernel = design.kernels[member.done % len(design.kernels)]
    if not member.has_begun:
        if kernel.groups and _takes_part(member, kernel, design):
            yield _with(state, number, _begun(member, kernel, design))
        else:
            yield _with(state, number, _run_alone(member, design))
        return
    for after in _ends(state, number, kernel, design):
        yield _with(state, number, _run_on(after, design))


def _takes_part(member: Member, kernel: Kernel, design: Design) -> bool:
    return not design.abort_is_for_ever or not member.aborted >> kernel.communicator & 1


def _begun(member: Member, kernel: Kernel, design: Design) -> Member:
    bit = 1 << member.done
    is_right = member.applied == member.done // len(design.kernels)
    if kernel.kind is Kind.CANARY:
        is_right = True
    if kernel.kind is Kind.COMMIT:
        is_right = member.has_canary or not design.canaries_are_chained
    bad = member.bad | (0 if is_right else bit)
    return member._replace(has_begun=True, begun=member.begun | bit, bad=bad)


def _ends(state: State, number: int, kernel: Kernel, design: Design) -> Iterator[Member]:
    """Yield a member after each end of a collective that it has begun."""
    member = state[number]
    mates = [state[mate] for mate in kernel.mates(number)]
    after = member._replace(done=member.done + 1, has_begun=False)
    step = member.done // len(design.kernels)
    have_all_begun = all(mate.begun >> member.done & 1 for mate in mates)
    are_all_right = not any(mate.bad >> member.done & 1 for mate in mates)
    if have_all_begun:
        yield _completed(after, kernel, step, are_all_right, design)
    can_be_cut_off = design.abort_is_for_ever or member.aborted_at == member.done
    if not (can_be_cut_off and member.aborted >> kernel.communicator & 1):
        return
    yield _cut_off(after, kernel, design)
    if have_all_begun and are_all_right and kernel.kind is Kind.COMMIT:  # all ones, and no more
        yield after._replace(has_flag=True, has_numbers=design.commit_is_bare)


def _cut_off(after: Member, kernel: Kernel, design: Design) -> Member:
    """Return a member after a collective that left a part: sums and flag stay as they were."""
    if kernel.kind is Kind.CANARY:
        return after._replace(has_canary=False)
    if kernel.kind is Kind.COMMIT and not design.flag_is_exact:  # its own one is there at least
        return after._replace(has_flag=True)
    return after


def _completed(
    after: Member, kernel: Kernel, step: int, are_all_right: bool, design: Design
) -> Member:
    if kernel.kind is Kind.SUM:
        return _with_new_sums(after, step, WHOLE if are_all_right else WRONG, design)
    if kernel.kind is Kind.CANARY:
        return after
    return after._replace(has_flag=are_all_right)


def _with_new_sums(member: Member, step: int, held: int, design: Design) -> Member:
    sums = list(member.sums)
    sums[step % len(sums)] = (step, held)
    changed = member._replace(sums=tuple(sums))
    if held != SHARE:
        return changed
    has_flag = member.has_flag and not design.flag_is_reset
    return changed._replace(has_flag=has_flag, has_canary=True, has_numbers=True)


def _applied(after: Member, step: int, design: Design) -> Member:
    if not (after.has_flag and (after.has_canary or design.canaries_are_chained)):
        return after
    is_right = (step, WHOLE) in after.sums and after.has_numbers and after.applied == step
    return after._replace(applied=after.applied + 1, is_wrong=after.is_wrong or not is_right)


def _with(state: State, number: int, member: Member) -> State:
    return (*state[:number], member, *state[number + 1 :])


def _without_names(state: State, design: Design) -> State:
    """Return one state for all that differ only in which of several alike members is which."""
    copies = [tuple(sorted(state[number] for number in copy)) for copy in design.copies]
    copies.sort(key=_size_first)
    return tuple(chain.from_iterable(copies))


def _size_first(copy: State) -> tuple[int, State]:
    return len(copy), copy
