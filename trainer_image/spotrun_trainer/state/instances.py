"""All instances of some classes, wherever a script keeps them."""

import gc
from collections.abc import Iterable, Iterator


def instances_of(kinds: Iterable[type]) -> list[object]:
    """Return the objects whose class is one of `kinds`, or is derived from one.

    An instance refers to its class, so the garbage collector finds it by references alone. A loop
    over `gc.get_objects()` writes a count into each of the 300,000 objects that torch makes: a
    forked process then copies all their pages.
    """
    classes = {each for kind in kinds for each in (kind, *derived_from(kind))}
    # Not isinstance: it makes some objects import modules, or raise.
    return [one for one in gc.get_referrers(*classes) if type(one) in classes]


def derived_from(kind: type) -> Iterator[type]:
    """Yield the classes below this one."""
    below: list[type] = type.__subclasses__(kind)
    for each in below:
        yield each
        yield from derived_from(each)
