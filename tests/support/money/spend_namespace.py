"""A namespace with SpendLimits and jobs, its objects in a dictionary, and the operator's keeper.

Writes are answered as an API server does, and each can be disturbed: refused before it is made, or
made and then not answered. `see` is what a watch would bring.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

import msgspec

from spotrun.act.jobs.spending import SpendKeeper
from spotrun.kube.errors import Conflict, KubeError, NotFound
from spotrun.kube.read_your_writes import Horizon
from spotrun.kube.resource import Key, Resource
from spotrun.kube.rest.client import Client
from spotrun.kube.watch.kopf_feed import Feed
from spotrun.kube.watch.reflector import Reflector
from spotrun.observe.caches import Caches
from spotrun.observe.jobs.spend_limits import SpendLimits
from spotrun.observe.kube_objects import FED, JobObject, SpendLimitObject
from spotrun.state.job_state import JobState
from tests.support.jobs.builders import NOW, a_job, a_spec
from tests.support.money.pool_builders import an_on_demand_pool, on_market
from tests.unit.kube.scripted import ScriptedTransport

NAMESPACE = "ns"
Disturbance = Literal["before", "after"]
CREATED = "2026-03-02T11:00:00Z"


class KilledError(KubeError):
    """The operator's process ends at this request."""


@dataclass
class Fault:
    """An error at one write, before it is made or instead of its answer."""

    nth: int
    when: Disturbance
    error: KubeError


@dataclass
class Operator:
    """One replica: what it knows is lost with it."""

    caches: Caches
    keeper: SpendKeeper
    woken: list[str]
    looked: list[str]

    @property
    def spending(self) -> SpendLimits:
        return self.caches.spending

    def asks(self, name: str, **facts: Any) -> bool:
        """Have a job decided that wants its first worker, which costs $10 an hour where it runs.

        Returns whether it has to ask first.
        """
        job = on_market(a_job(1), an_on_demand_pool("pool", 10.0))
        named = job.with_facts(name=name, uid=f"uid-{name}", namespace=NAMESPACE, **facts)
        seen = self.spending.added_to(named.snapshot())
        return self.spending.must_ask(seen, JobState(next_worker_id=1))

    def said(self) -> dict[str, bool]:
        """Whether each job may start, as far as it was told something."""
        verdicts = self.spending.verdicts_of(NAMESPACE)
        return {uid: one.is_granted for uid, one in sorted(verdicts.items())}


@dataclass
class SpendNamespace:
    """The objects of a namespace; `writes` are the requests that changed one."""

    now: datetime = NOW
    clock: float = 0.0
    leads: bool = True
    fault: Fault | None = None
    writes: list[str] = field(default_factory=list)
    _asked: int = 0
    _version: int = 1
    _objects: dict[str, dict[str, dict[str, Any]]] = field(
        default_factory=lambda: {"trainingjobs": {}, "spendlimits": {}}
    )

    def operator(self) -> Operator:
        """Start a replica that has seen everything."""
        woken, looked = list[str](), list[str]()
        client = Client(ScriptedTransport(self._answer), field_manager="test")
        caches = Caches(
            client,
            namespace=None,
            wake=lambda key: woken.append(key.name),
            wake_spending=looked.append,
            feed=Feed(FED),
            clock=lambda: self.clock,
            wall=lambda: self.now,
        )
        horizon: Horizon[Key, Resource] = Horizon(caches, lambda: self.clock)
        keeper = SpendKeeper(
            client,
            caches,
            horizon,
            leads=lambda: self.leads,
            clock=lambda: self.clock,
            wall=lambda: self.now,
        )
        made = Operator(caches, keeper, woken, looked)
        self.see(made)
        return made

    def limit(self, name: str = "team", **spec: Any) -> None:
        self._put("spendlimits", name, {}, spec={"limitUsd": "100", **spec})

    def job(self, name: str, *, workers: int = 0, **facts: Any) -> None:
        """A job of one worker that costs $10 an hour, or that does not run yet."""
        meta = {"creationTimestamp": CREATED, **facts.pop("meta", {})}
        status = (
            {"nextWorkerId": workers, "cost": {"usd": facts.pop("usd", "0")}} if workers else {}
        )
        spec = facts.pop("spec", None) or a_spec(1).manifest()
        self._put("trainingjobs", name, meta, spec=spec, status={**status, **facts})

    def delete(self, name: str, kind: str = "trainingjobs") -> None:
        """Delete an object: one with finalizers stays until they are gone."""
        one = self._objects[kind][name]
        self._change(one)
        one["metadata"]["deletionTimestamp"] = CREATED
        self._collect(kind, name)

    def touch(self, name: str, kind: str = "trainingjobs") -> None:
        """Give an object a new version, after a change by hand."""
        self._change(self._objects[kind][name])

    def get(self, name: str, kind: str = "trainingjobs") -> dict[str, Any]:
        return self._objects[kind][name]

    def has(self, name: str) -> bool:
        return name in self._objects["trainingjobs"]

    def state(self, name: str = "team") -> dict[str, Any]:
        """The stored status of a limit."""
        stored: dict[str, Any] = self._objects["spendlimits"][name].get("status", {})
        return stored

    def see(self, operator: Operator) -> None:
        """Bring an operator's caches up to date, as watches do."""
        for kind, reflector, as_type in _reflectors(operator):
            known = {key.name for key in reflector.store.names()}
            changes = [
                change
                for name in known - self._objects[kind].keys()
                for change in reflector.store.remove(Key(NAMESPACE, name))
            ]
            for one in self._objects[kind].values():
                read = msgspec.json.decode(msgspec.json.encode(one), type=as_type)
                changes += reflector.store.put(read)
            reflector.last_version = self._version
            for change in changes:
                reflector._handler(*change)

    def _put(self, kind: str, name: str, meta: dict[str, Any], **content: Any) -> None:
        uid = f"uid-{name}"
        one = {"metadata": {"name": name, "namespace": NAMESPACE, "uid": uid, **meta}, **content}
        self._change(one)
        self._objects[kind][name] = one

    def _change(self, one: dict[str, Any]) -> None:
        self._version += 1
        one["metadata"]["resourceVersion"] = str(self._version)

    def _answer(self, method: str, path: str, body: Any) -> Any:
        assert method == "PATCH", f"{method} {path}"
        parts = path.partition("?")[0].split("/")
        is_status = parts[-1] == "status"
        kind, name = parts[-3:-1] if is_status else parts[-2:]
        self._asked += 1
        fault = self.fault if self.fault is not None and self.fault.nth == self._asked else None
        if fault is not None and fault.when == "before":
            raise fault.error
        answer = self._patch(kind, name, body)
        if fault is not None:
            raise fault.error
        return answer

    def _patch(self, kind: str, name: str, body: Any) -> Any:
        one = self._objects[kind].get(name)
        if one is None:
            raise NotFound(f"{kind} {name} not found")
        guard, change = body
        if guard["value"] != one["metadata"]["resourceVersion"]:
            raise Conflict(f"{kind} {name} has changed")
        self._change(one)
        self.writes.append(f"{change['path']} of {name}")
        if change["path"] == "/status":
            one["status"] = change["value"]
        else:
            one["metadata"]["finalizers"] = change["value"]
        self._collect(kind, name)
        return {"metadata": {"name": name, "resourceVersion": str(self._version)}}

    def _collect(self, kind: str, name: str) -> None:
        meta = self._objects[kind][name]["metadata"]
        if "deletionTimestamp" in meta and not meta.get("finalizers"):
            del self._objects[kind][name]


def _reflectors(operator: Operator) -> Iterator[tuple[str, Reflector[Any], type[Any]]]:
    yield "spendlimits", operator.spending.objects, SpendLimitObject
    yield "trainingjobs", operator.caches.jobs.objects, JobObject
