from collections.abc import Iterator
from dataclasses import fields, replace
from datetime import timedelta
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType

from hypothesis import example, given, settings
from hypothesis import strategies as st

from devcluster.client import Manifest
from spotrun import policies
from spotrun import state as state_package
from spotrun.api.field_types.text_values import WorkerIds
from spotrun.api.names import Phase
from spotrun.api.status import TrainingJobStatus
from spotrun.money.charges import Charge, Charges
from spotrun.money.price_history import EVER
from spotrun.money.units import Usd, UsdPerHour
from spotrun.state.codec import read, read_said, write
from spotrun.state.job_state import JobState
from spotrun.state.stored.cost import Accumulators
from spotrun.state.stored.cost_codec import read_sums, write_sums
from tests.support.api.field_writers import models
from tests.support.api.status_strategies import statuses
from tests.support.jobs.builders import NOW
from tests.support.jobs.stored_state import stored

_LISTS_OF_A_WORLD = ("stateHolders", "usedStores", "lateWorkers", "joiningWorkers")


_AMOUNTS = ("Usd", "Hours")


def normal_form(status: TrainingJobStatus) -> Manifest:
    """Return the status as it is written: sets ascend, and what says nothing is left out.

    Charges, their ends and sums by pool are written by worker and by pool, see their own test.
    """
    manifest = status.manifest()
    if "storage" in manifest.get("accumulators", {}):
        sums = manifest["accumulators"]["storage"]
        nothing = {k for k, v in sums.items() if not v or (k.endswith(_AMOUNTS) and not float(v))}
        kept = {"storedBytes", "checkpoints"}
        sums = {k: v for k, v in sums.items() if k not in nothing - kept}
        manifest["accumulators"]["storage"] = sums
    for block in ("cost", "accumulators"):
        manifest[block] = {k: v for k, v in manifest.get(block, {}).items() if v or v == 0}
    by_name = manifest["accumulators"]
    written = write(read(status)).manifest().get("accumulators", {})
    for name in ("rates", "ends", "byPool"):
        by_name.pop(name, None)
        by_name |= {name: written[name]} if name in written else {}
    manifest = {k: v for k, v in manifest.items() if v or k not in {"cost", "accumulators"}}
    _drop_empty_world(manifest)
    _drop_empty_worker_ids(manifest)
    _drop_empty_blocks(manifest)
    _drop_empty_scaling(manifest)
    return {k: v for k, v in manifest.items() if v or k not in _SAY_NOTHING_EMPTY}


def _drop_empty_world(manifest: Manifest) -> None:
    world = manifest.get("world", {})
    for name in (*_LISTS_OF_A_WORLD, "breaks", "planned", "stage"):
        if not world.get(name):
            world.pop(name, None)
    if world == {"number": 0, "members": "", "active": False, "entry": "Restart"}:
        del manifest["world"]


def _drop_empty_worker_ids(manifest: Manifest) -> None:
    if not manifest.get("settled"):
        manifest.pop("settled", None)
    for name in manifest.keys() & {"lost", "failed"}:
        manifest[name] = WorkerIds.of(sorted(WorkerIds(manifest[name]).set))
        if not manifest[name]:
            del manifest[name]


def _drop_empty_blocks(manifest: Manifest) -> None:
    if manifest.get("unused") == {"count": 0, "size": 0, "room": 0}:
        del manifest["unused"]
    _drop_empty(manifest, "rejections", "nodes")
    for name in ("blamed", "lastFollows"):
        _drop_empty(manifest, "restarts", name)
    _drop_empty(manifest.get("restarts", {}), "joiningWorkers", "held")
    _drop_empty(manifest.get("restarts", {}), "sizes", "trained")
    if not manifest.get("restarts", {}).get("sizes"):
        manifest.get("restarts", {}).pop("sizes", None)
    if not manifest.get("restarts"):
        manifest.pop("restarts", None)
    _drop_empty(manifest, "pace", "changeovers")
    for decision in manifest.get("decisions", ()):
        if not decision.get("numbers"):
            decision.pop("numbers", None)
    for name in ("count", "lostSteps"):
        _drop_empty(manifest, "interruptions", name)


_SAY_NOTHING_EMPTY = {
    "progress",
    "pace",
    "workers",
    "interruptions",
    "decisions",
    "conditions",
}


def _drop_empty_scaling(manifest: Manifest) -> None:
    for name in ("utilization", "efficiency", "measured", "rejected", "decisions"):
        _drop_empty(manifest, "scaling", name)
    for one in manifest.get("scaling", {}).get("measured", ()):
        if not one.get("accelerator"):
            one.pop("accelerator", None)
    if not manifest.get("scaling"):
        manifest.pop("scaling", None)


def _drop_empty(parent: Manifest, block: str, name: str) -> None:
    if not parent.get(block, {}).get(name):
        parent.get(block, {}).pop(name, None)


@given(statuses(TrainingJobStatus))
@example(TrainingJobStatus.model_validate({"accumulators": {"usefulStep": 0}}))
def test_what_was_read_is_written_as_it_was(status: TrainingJobStatus) -> None:
    assert write(read(status)).manifest() == normal_form(status)


def test_numbers_keep_their_digits() -> None:
    progress = {"step": 1, "samplesPerSecond": "64.000"}
    manifest = {"progress": progress, "pace": {"stepSeconds": "0.500000"}}
    assert write(read(TrainingJobStatus.model_validate(manifest))).manifest() == manifest


prices = st.decimals(0, 10**6, places=12).map(UsdPerHour)
moments = st.integers(0, 7200).map(lambda seconds: NOW + timedelta(seconds=seconds))
charges = st.builds(Charge, st.just(EVER) | moments, prices, st.booleans(), st.sampled_from("ab"))
lists = st.lists(charges, min_size=1, max_size=40).map(Charges)
sums = st.builds(
    Accumulators,
    rates=st.dictionaries(st.integers(0, 20), lists),
    ends=st.dictionaries(st.integers(0, 20), moments),
    by_pool=st.dictionaries(st.sampled_from(("", "a", "b")), st.integers(0, 9).map(Usd)),
)


@given(sums)
def test_charges_their_ends_and_sums_by_pool_come_back_worker_by_worker(sums: Accumulators) -> None:
    assert read_sums(write_sums(sums)) == sums


@settings(max_examples=50)
@given(statuses(TrainingJobStatus))
def test_what_was_written_is_read_as_it_was(status: TrainingJobStatus) -> None:
    state = read(status)
    assert stored(state) == state


@given(statuses(TrainingJobStatus))
def test_of_a_status_that_cannot_be_true_only_what_is_said_changes(
    status: TrainingJobStatus,
) -> None:
    said = replace(read_said(status), phase=Phase.PENDING, reason="LedgerRefused", message="no")
    changed = {"phase": "Pending", "reason": "LedgerRefused", "message": "no"}
    before = status.manifest()
    if not before.get("conditions"):
        before.pop("conditions", None)
    assert write(said).manifest() == before | changed


def test_decisions_carry_no_model_of_a_status() -> None:
    stored = set(models(TrainingJobStatus))
    carried = [
        f"{module.__name__}.{name}"
        for module in _modules(policies, state_package)
        for name, one in vars(module).items()
        if isinstance(one, type) and one in stored
    ]
    assert [one for one in carried if "_codec." not in one and ".codec." not in one] == []


def _modules(*packages: ModuleType) -> Iterator[ModuleType]:
    for package in packages:
        for found in walk_packages(package.__path__, f"{package.__name__}."):
            yield import_module(found.name)


def test_every_field_that_is_stored_has_a_place_in_the_state() -> None:
    assert {one.name for one in fields(JobState)} == {*TrainingJobStatus.model_fields, "unread"}
