from spotrun.state.job_state import NO_ORDERS, Orders
from tests.support.jobs.builders import NOW, ON_CLAIM, a_job


def test_a_checkpoint_is_ordered_when_more_leave_than_a_world_can_spare() -> None:
    job = a_job(2, min=2, checkpoint=ON_CLAIM).training(0, 1)
    job = job.with_worker(1, ready=True, arrived=1, leaves_in=60)
    assert job.decide().status.orders == Orders(1, NOW)
    spare = job.with_worker(2, ready=True).decide().status
    assert spare.orders is NO_ORDERS
