from spotrun.api.names import ConditionType
from tests.support.jobs.builders import a_job
from tests.support.jobs.decided import condition


def test_a_volume_for_one_node_is_refused_to_several_workers() -> None:
    job = a_job(2).with_facts(volume_is_shared=False)
    assert job.decide().actions == ()
    kind = ConditionType.CHECKPOINT_USABLE
    assert condition(job, kind) == ("False", "VolumeNotShared")
    assert condition(a_job(1).with_facts(volume_is_shared=False), kind) == ("True", "Training")
    assert condition(a_job(2), kind) is None
