"""The dashboard of all jobs: their cost by team and pool, and the state of the operator."""

from charts.grafana import Dashboard, Panel, Query, Row, Variable, selected, stat

_CHOSEN = 'namespace=~"$namespace"'


def _of(metric: str) -> str:
    """A metric of the selected namespaces."""
    return selected(metric, _CHOSEN)


def _of_limit(metric: str) -> str:
    """A metric of the SpendLimits of the selected namespaces."""
    return _chosen(f"spotrun_spendlimit_{metric}")


def _chosen(metric: str) -> str:
    """A metric of the selected namespaces that does not belong to one job."""
    return f"{metric}{{{_CHOSEN}}}"


_NAME = "{{namespace}}/{{name}}"
_SPENT = f"increase({_of('cost_usd_total')}[$__range])"
_SPENT_IN_POOLS = f"increase({_of('pool_cost_usd_total')}[$__range])"
_ON_DEMAND = f"increase({_of('on_demand_cost_usd_total')}[$__range])"

FLEET = Dashboard(
    "spotrun-fleet",
    "spotrun: all jobs",
    [
        Row(
            "Money",
            [
                stat(
                    "Spent now",
                    "The present cost of all jobs.",
                    f"sum({_of('cost_rate_usd_per_hour')})",
                    "currencyUSD",
                ),
                stat(
                    "This month",
                    "Spent since the first of the month, by jobs that were seen by Prometheus, as "
                    "it was first shown.",
                    f"sum({_SPENT})",
                    "currencyUSD",
                    since="now/M",
                ),
                stat(
                    "Saved this month",
                    "The same useful work on demand, minus what was spent; below zero where spot "
                    "cost more.",
                    f"sum({_ON_DEMAND}) - sum({_SPENT} and on (namespace, name) {_ON_DEMAND})",
                    "currencyUSD",
                    since="now/M",
                ),
                stat(
                    "Lost this month",
                    "Share of the money that went into steps done twice and stalls.",
                    f"sum(increase({_of('lost_work_cost_usd_total')}[$__range])) / sum({_SPENT})",
                    "percentunit",
                    since="now/M",
                ),
                stat(
                    "Jobs that train",
                    "Jobs in the phase Running.",
                    'sum(spotrun_trainingjobs{phase="Running"})',
                ),
                stat(
                    "Of unknown price",
                    "Workers on nodes of unknown price: their cost is in no sum here.",
                    f"sum({_of('unpriced_workers')})",
                ),
                Panel(
                    "Rate by team",
                    "What each team spends, in USD per hour.",
                    [Query(f"sum by (team) ({_of('cost_rate_usd_per_hour')})", "{{team}}")],
                    "currencyUSD",
                    is_stacked=True,
                ),
                Panel(
                    "Month to date by team",
                    "Spent since the first of the month, by the label team of the jobs.",
                    [Query(f"sort_desc(sum by (team) ({_SPENT}))", "{{team}}")],
                    "currencyUSD",
                    kind="bargauge",
                    since="now/M",
                ),
            ],
        ),
        Row(
            "Capacity",
            [
                Panel(
                    "Workers by pool",
                    "Workers that run, by the CapacityPool of their node.",
                    [
                        Query(
                            f"sum by (pool, capacity) ({_of('placed_workers')})",
                            "{{pool}} {{capacity}}",
                        )
                    ],
                    is_stacked=True,
                ),
                Panel(
                    "Month to date by pool",
                    "Spent since the first of the month, by the CapacityPool of the nodes, as it "
                    "was first shown.",
                    [Query(f"sort_desc(sum by (pool) ({_SPENT_IN_POOLS}))", "{{pool}}")],
                    "currencyUSD",
                    kind="bargauge",
                    since="now/M",
                ),
                Panel(
                    "Workers taken away",
                    "Interruptions in an hour, by namespace.",
                    [
                        Query(
                            f"sum by (namespace) (increase({_of('interruptions_total')}[1h]))",
                            "{{namespace}}",
                        )
                    ],
                    width=8,
                ),
                Panel(
                    "Jobs by phase",
                    "All jobs of the cluster.",
                    [Query("sum by (phase) (spotrun_trainingjobs)", "{{phase}}")],
                    is_stacked=True,
                    width=8,
                ),
                Panel(
                    "Dearest jobs",
                    "The twenty that spend most at present, in USD per hour.",
                    [
                        Query(
                            f"topk(20, sum by (namespace, name) ({_of('cost_rate_usd_per_hour')}))",
                            "{{namespace}}/{{name}}",
                        )
                    ],
                    "currencyUSD",
                    kind="bargauge",
                    width=8,
                ),
            ],
        ),
        Row(
            "Queues, limits and preemption",
            [
                Panel(
                    "Jobs that are held",
                    "Suspended jobs of the cluster, by what holds them back; a job may have "
                    "several.",
                    [Query("sum by (by) (spotrun_trainingjobs_held)", "{{by}}")],
                    is_stacked=True,
                    width=8,
                ),
                Panel(
                    "Longest waits",
                    "The twenty jobs that have waited longest for a queue, for quota or for nodes.",
                    [
                        Query(
                            "topk(20, time() - max by (namespace, name) "
                            f"({_of('queued_timestamp_seconds')}))",
                            _NAME,
                        )
                    ],
                    "s",
                    kind="bargauge",
                    width=8,
                ),
                Panel(
                    "Spend limits used",
                    "Spent in the present period, as a share of each SpendLimit.",
                    [Query(f"sort_desc({_of_limit('spent_usd')} / {_of_limit('usd')})", _NAME)],
                    "percentunit",
                    kind="bargauge",
                    width=8,
                ),
                Panel(
                    "Spend limits kept and expected",
                    "Money kept for jobs that run or may start, and expected by the end of the "
                    "period, as shares of each SpendLimit.",
                    [
                        Query(f"{_of_limit('reserved_usd')} / {_of_limit('usd')}", f"{_NAME} kept"),
                        Query(
                            f"{_of_limit('forecast_usd')} / {_of_limit('usd')}",
                            f"{_NAME} expected",
                        ),
                    ],
                    "percentunit",
                    width=8,
                ),
                Panel(
                    "Jobs stopped or held by limits",
                    "Jobs that SpendLimits do not let start, or have suspended.",
                    [
                        Query(
                            f"sum by (namespace, name, state) ({_of_limit('jobs')})",
                            f"{_NAME} {{{{state}}}}",
                        )
                    ],
                    width=8,
                ),
                Panel(
                    "Preempted",
                    "Times in an hour that jobs were made to give workers to one of higher "
                    "priority, by the namespaces of both.",
                    [
                        Query(
                            "sum by (namespace, by_namespace, how) "
                            f"(increase({_chosen('spotrun_preemptions_total')}[1h]))",
                            "{{namespace}} for {{by_namespace}}: {{how}}",
                        )
                    ],
                    width=8,
                ),
                Panel(
                    "Price of preemption",
                    "Unsaved work and restarts of the jobs that gave way, in USD an hour, as it "
                    "was reckoned when it was decided.",
                    [
                        Query(
                            "sum by (namespace, by_namespace) (increase("
                            f"{_chosen('spotrun_preemption_cost_usd_total')}[1h]))",
                            "{{namespace}} for {{by_namespace}}",
                        )
                    ],
                    "currencyUSD",
                    width=8,
                ),
            ],
        ),
        Row(
            "Operator",
            [
                Panel(
                    "Work on a job",
                    "The time the operator needs to observe a job, decide and act.",
                    [
                        Query(
                            f"histogram_quantile({quantile}, sum by (le) (rate("
                            "spotrun_trainingjob_reconcile_duration_seconds_bucket"
                            "[$__rate_interval])))",
                            legend,
                        )
                        for quantile, legend in ((0.5, "median"), (0.99, "99 %"))
                    ],
                    "s",
                    width=8,
                ),
                Panel(
                    "Waiting",
                    "How long the first entry of each queue has waited.",
                    [
                        Query(
                            "max by (queue) (spotrun_queue_oldest_seconds)",
                            "{{queue}}",
                        )
                    ],
                    "s",
                    width=8,
                ),
                Panel(
                    "Errors",
                    "Passes over jobs that failed, by error, and the number of leaders.",
                    [
                        Query(
                            "sum by (error) (rate("
                            "spotrun_trainingjob_reconcile_errors_total[$__rate_interval]))",
                            "{{error}}",
                        ),
                        Query("sum(spotrun_leader)", "leaders"),
                    ],
                    width=8,
                ),
            ],
        ),
    ],
    [Variable("namespace", "label_values(spotrun_trainingjob_info, namespace)", has_all=True)],
    "now-24h",
)
