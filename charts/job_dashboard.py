"""The dashboard of one job: its progress, its capacity, its cost and its savings."""

from charts.grafana import Dashboard, Panel, Query, Row, Variable, selected, stat


def _mine(metric: str, *more: str) -> str:
    """A metric of the selected job; the leader that reports it may have changed meanwhile."""
    series = selected(metric, 'namespace="$namespace"', 'name="$name"', *more)
    return f"max without (instance, pod) ({series})"


# The counter never falls; corrections are a metric of their own.
_SPENT = f"({_mine('cost_usd_total')} + {_mine('cost_corrected_usd')})"
# Both metrics may count a stall that ends in a new step.
_REST = (
    f"clamp_min({_SPENT} - {_mine('useful_cost_usd_total')}"
    f" - ({_mine('lost_work_cost_usd_total')} or 0 * {_SPENT}), 0)"
)

JOB = Dashboard(
    "spotrun-job",
    "spotrun: one job",
    [
        Row(
            "Now",
            [
                stat("Phase", "The phase of the job.", _mine("info"), name="{{phase}}"),
                stat(
                    "Progress",
                    "The share of all steps that is done.",
                    _mine("progress_ratio"),
                    "percentunit",
                ),
                stat("Spent", "So far.", _SPENT, "currencyUSD"),
                stat(
                    "At its end",
                    "The expected cost at the end, at the present price of a durable step.",
                    _mine("forecast_cost_usd"),
                    "currencyUSD",
                ),
                stat(
                    "Saved",
                    "The same useful work on demand, minus what was spent; below zero where spot "
                    "cost more.",
                    _mine("saved_usd"),
                    "currencyUSD",
                ),
                stat(
                    "Budget",
                    "Share of budget.maxCostUsd that is spent.",
                    _mine("budget_used_ratio"),
                    "percentunit",
                ),
            ],
        ),
        Row(
            "Training",
            [
                Panel(
                    "Workers by capacity",
                    "Workers that run, by the capacity of their nodes, and how many are wanted.",
                    [
                        Query(f"sum by (capacity) ({_mine('placed_workers')})", "{{capacity}}"),
                        Query(_mine("workers", 'state="desired"'), "wanted"),
                    ],
                    is_stacked=True,
                    colors={"Spot": "green", "OnDemand": "orange", "Reserved": "blue"},
                    unstacked=["wanted"],
                ),
                Panel(
                    "Steps",
                    "The last step that every rank committed, and the one that the newest "
                    "checkpoint holds: what lies between them is lost if all workers are.",
                    [
                        Query(_mine("step"), "done"),
                        Query(_mine("checkpoint_step"), "saved"),
                        Query(_mine("local_checkpoint_step"), "local tier"),
                    ],
                ),
                Panel(
                    "Samples per second",
                    "Recently, over all workers.",
                    [Query(_mine("samples_per_second"), "samples/s")],
                ),
                Panel(
                    "Size",
                    "In mode Auto: the size that is justified, and that of the world that trains.",
                    [Query(_mine("scaling_workers"), "{{state}}")],
                ),
                Panel(
                    "Utilization",
                    "In mode Auto: the utilization of each resource that has a target.",
                    [Query(_mine("utilization_ratio"), "{{resource}}")],
                    "percentunit",
                ),
                Panel(
                    "Age of the newest checkpoint",
                    "Multiplied by the rate, this is the cost of losing all workers; with a local "
                    "tier, the loss of one node costs only the time since its newest step.",
                    [
                        Query(f"time() - {_mine('checkpoint_timestamp_seconds')}", "age"),
                        Query(
                            f"time() - {_mine('local_checkpoint_timestamp_seconds')}", "local tier"
                        ),
                    ],
                    "s",
                ),
            ],
        ),
        Row(
            "Money",
            [
                Panel(
                    "Spent, against on demand and budget",
                    "What was spent, what the same useful work would have cost on demand, the "
                    "forecast, and the budget.",
                    [
                        Query(_SPENT, "spent"),
                        Query(_mine("on_demand_cost_usd_total"), "on demand"),
                        Query(_mine("forecast_cost_usd"), "forecast"),
                        Query(_mine("budget_usd"), "budget"),
                    ],
                    "currencyUSD",
                    colors={"spent": "green", "on demand": "orange", "budget": "red"},
                ),
                Panel(
                    "What the money bought",
                    "Steps that were new and stay; steps done twice and stalls; and the rest: "
                    "starting, waiting for peers, saving.",
                    [
                        Query(_mine("useful_cost_usd_total"), "useful"),
                        Query(_mine("lost_work_cost_usd_total"), "lost"),
                        Query(_REST, "overhead"),
                    ],
                    "currencyUSD",
                    is_stacked=True,
                    colors={"useful": "green", "lost": "red", "overhead": "yellow"},
                ),
                Panel(
                    "Rate",
                    "What the job costs at present, in USD per hour.",
                    [Query(_mine("cost_rate_usd_per_hour"), "USD/h")],
                    "currencyUSD",
                ),
                Panel(
                    "Goodput",
                    "Share of the spent money that bought new steps which were kept.",
                    [Query(_mine("goodput_ratio"), "goodput")],
                    "percentunit",
                ),
                Panel(
                    "What was wasted",
                    "Steps done again and standstills, which are the lost work; waiting for other "
                    "workers or for data inside of useful steps; and saving between them.",
                    [Query(_mine("wasted_cost_usd_total"), "{{what}}")],
                    "currencyUSD",
                    is_stacked=True,
                ),
                Panel(
                    "Beside what was spent",
                    "What is in no figure above: unused parts of nodes on which no other job runs, "
                    "and an estimate of the traffic between zones.",
                    [
                        Query(_mine("idle_cost_usd_total"), "idle"),
                        Query(_mine("estimated_transfer_cost_usd_total"), "traffic, estimated"),
                    ],
                    "currencyUSD",
                    is_stacked=True,
                ),
            ],
        ),
        Row(
            "Trouble",
            [
                Panel(
                    "Taken away, failed, done again",
                    "Workers that were taken away, failures that count, and steps done twice.",
                    [
                        Query(_mine("interruptions_total"), "workers taken away"),
                        Query(_mine("failures_total"), "failures"),
                        Query(_mine("redone_steps_total"), "steps done again"),
                    ],
                ),
                Panel(
                    "Conditions",
                    "1 where a condition is True, 0 where it is False.",
                    [
                        Query(
                            f"max by (condition) ({_mine('condition')})",
                            "{{condition}}",
                        )
                    ],
                ),
            ],
        ),
    ],
    [
        Variable("namespace", "label_values(spotrun_trainingjob_info, namespace)"),
        Variable("name", 'label_values(spotrun_trainingjob_info{namespace="$namespace"}, name)'),
    ],
    "now-24h",
)
