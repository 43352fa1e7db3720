from prometheus_client import CollectorRegistry, generate_latest

from spotrun.metrics.preemptions import PreemptionCounts
from tests.support.monitoring.every_metric import a_preemption

BY = 'by_namespace="ml"'


def test_who_gave_way_to_whom_and_for_what_price_is_counted_once() -> None:
    registry = CollectorRegistry()
    counts = PreemptionCounts(registry)
    job, status = a_preemption(workers=1, usd=2)
    counts.count(job, status)
    counts.count(job, job.status)
    job, status = a_preemption(workers=0, usd=30)
    counts.count(job, status)
    lines = generate_latest(registry).decode().splitlines()
    series = dict(line.rsplit(" ", 1) for line in lines if line.startswith("spotrun_"))
    assert {name: value for name, value in series.items() if "_created" not in name} == {
        f'spotrun_preemptions_total{{{BY},how="shrunk",namespace="web"}}': "1.0",
        f'spotrun_preemptions_total{{{BY},how="suspended",namespace="web"}}': "1.0",
        f'spotrun_preemption_cost_usd_total{{{BY},namespace="web"}}': "32.0",
    }
