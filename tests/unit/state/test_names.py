import re

from hypothesis import given
from hypothesis import strategies as st

from spotrun.state.names import owned_name, template_hash, worker_id_of, worker_name
from tests.support.jobs.builders import a_spec

UID = "7c0e7f5e-0f1a-4d4c-9a55-2f6d2f3f1d11"
NAMES = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,48}[a-z0-9])?", fullmatch=True)
WORKER_IDS = st.integers(0, 999_999_999)


def test_a_worker_is_named_after_its_job_the_jobs_uid_and_its_number() -> None:
    # Fixed for ever: pods of an earlier operator must be found again.
    assert worker_name("bert", UID, 12) == "bert-e2upl-12"
    assert owned_name("bert", UID) == "bert-e2upl"


@given(NAMES, st.uuids().map(str), WORKER_IDS)
def test_names_are_labels_and_lead_back_to_the_number(job: str, uid: str, worker_id: int) -> None:
    name = worker_name(job, uid, worker_id)
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", name) or len(name) > 63
    assert len(name) <= 50 + 1 + 5 + 1 + 9
    assert worker_id_of(name, job, uid) == worker_id


@given(NAMES, st.uuids().map(str), st.uuids().map(str), WORKER_IDS)
def test_a_job_that_was_made_again_has_other_names(
    job: str, uid: str, other: str, worker_id: int
) -> None:
    if owned_name(job, uid) != owned_name(job, other):
        assert worker_id_of(worker_name(job, uid, worker_id), job, other) is None


def test_what_is_not_exactly_such_a_name_has_no_number() -> None:
    good = worker_name("job", UID, 7)
    assert worker_id_of(good, "job", UID) == 7
    for bad in (
        good + "x",
        good[:-1],
        f"{good[:-1]}07",
        f"{good[:-1]}\N{SUPERSCRIPT TWO}",
        "7",
        "",
    ):
        assert worker_id_of(bad, "job", UID) is None, bad
    assert worker_id_of(good, "jo", UID) is None


def test_the_hash_follows_what_workers_are_made_from_and_nothing_else() -> None:
    plain = template_hash(a_spec(2))
    assert re.fullmatch(r"[a-z2-7]{16}", plain)
    assert template_hash(a_spec(8, priority=5, suspend=True)) == plain
    nfs = {"volume": {"nfs": {"server": "a", "path": "/b"}}}
    assert template_hash(a_spec(2, checkpoint=nfs)) != plain
    # A default that is spelled out, by a user or by the API server, is no other template.
    spelled = {**nfs, "keep": 3, "every": "Auto"}
    assert template_hash(a_spec(2, checkpoint=spelled)) == template_hash(a_spec(2, checkpoint=nfs))


def test_the_hash_of_today_is_the_hash_of_tomorrow() -> None:
    # Another one would replace every running worker when the operator is upgraded.
    assert template_hash(a_spec()) == "ohh6j4ix74s2khmr"
