"""Events are those of the very job: one of the same name before it had its own."""

from types import SimpleNamespace
from typing import Any, cast

from spotrun.cli.cluster.session import Cluster
from spotrun.cli.jobs.reading import events_of, everything_of
from spotrun.kube.resource import Meta
from spotrun.observe.kube_objects import (
    EVENTS,
    EventObject,
    Regarding,
)
from tests.support.screens.shown_jobs import shown_job

JOB = shown_job()


def told(uid: str, note: str) -> EventObject:
    about = Regarding(kind="TrainingJob", name=JOB.metadata.name, uid=uid)
    return EventObject(metadata=Meta(name=note), regarding=about, note=note)


class Stored:
    """A cluster with one job, and the events of two that had its name."""

    async def get(self, *_: Any, **__: Any) -> Any:
        return JOB

    async def list_all(self, chosen: Any, _: Any) -> Any:
        events = (told("former", "of the former"), told(JOB.metadata.uid, "its own"))
        return SimpleNamespace(items=events if chosen.resource == EVENTS else ())


async def test_a_former_job_of_the_same_name_does_not_speak() -> None:
    cluster = Cluster(cast("Any", Stored()), cast("Any", None), "ml", "here")
    shown = await everything_of(cluster, JOB.metadata.name)
    for events in (shown.events, await events_of(cluster, JOB)):
        assert [one.note for one in events] == ["its own"]
