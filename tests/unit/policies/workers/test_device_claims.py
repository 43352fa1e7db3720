from dataclasses import replace
from typing import Any

import pytest

from spotrun.api.names import ConditionType, Phase
from spotrun.money.shares import Resources
from tests.support.jobs.builders import JobBuilder, a_job
from tests.support.jobs.decided import condition, phase


def claiming(**spec: Any) -> JobBuilder:
    """A job whose workers are given their devices by dynamic resource allocation."""
    resources = {"claims": [{"name": "gpus"}], **spec.pop("resources", {})}
    trainer = {"name": "trainer", "image": "x", "resources": resources}
    claims = [{"name": "gpus", "resourceClaimTemplateName": "four-gpus"}]
    workers = a_job(2, template={"spec": {"containers": [trainer], "resourceClaims": claims}})
    spec = {"workers": workers.spec.workers.model_copy(update=spec)}
    job = replace(workers, spec=workers.spec.model_copy(update=spec))
    return job.with_facts(claims_uncounted="the claim is not there")


def test_where_devices_are_claimed_it_must_be_said_how_many_processes_there_are() -> None:
    job, kind = claiming(), ConditionType.TEMPLATE_ACCEPTED
    assert job.decide().actions == ()
    assert phase(job) == (Phase.PENDING, "ProcessesUnknown")
    assert condition(job, kind) == ("False", "ProcessesUnknown")
    message = job.decide().status.message or ""
    assert "(the claim is not there)" in message
    assert message.endswith("suspend: true in the same change")


@pytest.mark.parametrize(
    "known",
    [
        claiming(processes=4),
        claiming().with_facts(requests=Resources(gpus=1)),
        claiming().with_facts(claims_uncounted="", claimed=4),
        claiming().with_facts(claimed=4),
        claiming().training(0, 1),
    ],
    ids=[
        "it is said",
        "the limits say it",
        "it is counted",
        "its workers know it",
        "it ran before they were looked at",
    ],
)
def test_where_it_is_known_devices_may_be_claimed(known: JobBuilder) -> None:
    assert "ProcessesUnknown" not in str(known.decide().status)
