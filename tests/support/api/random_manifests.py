"""Random manifests: near enough to good ones that both verdicts come up."""

from typing import Any

from hypothesis import strategies as st

from tests.support.api.manifest_cases import (
    CLAIM,
    CONTAINERS,
    LEFT_OUT,
    OWN_NODES,
    TEMPLATE,
    TRAINER,
    Manifest,
    job,
    pool,
)

SIDE = {"name": "side", "image": "i", "command": ["sh"]}
SELECTORS: list[Manifest] = [
    {},
    {"matchLabels": {"a": "b"}},
    {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]},
    {"matchExpressions": [{"key": "a", "operator": "NotIn"}]},
    {"matchExpressions": [{"key": "a", "operator": "Exists", "values": []}]},
    {"matchExpressions": [{"key": "a", "operator": "DoesNotExist", "values": ["b"]}]},
]

# For each place, values that can be good, and values that never are.
Choices = dict[str, tuple[list[Any], list[Any]]]

SIZES = [1, 2, 3, 4, 6, 8]
DURATIONS = ["90s", "1h30m", "1.5h", "10m", "250ms", "1h0m0s"]
NO_DURATIONS = ["1d", "-1s", "", "1", "30m1h", "1us", 5, "1s\n", "1.2345s", "9999999h"]
AMOUNTS = ["1", "0.5", "120", "999999999999.999999999999"]
NO_AMOUNTS = ["-1", "1e3", ".5", "1.", "", 1, "1,5", " 1", "1.0000000000001"]

JOB: Choices = {
    "suspend": ([True, False], ["true", 1]),
    "priority": ([-1, 0, 10**9], [10**9 + 1, "1"]),
    "workers.min": ([1], [0, -1, "1"]),
    "workers.max": ([9], [10_001]),
    "workers.replicas": ([0, 5, 10_000], [-1]),
    "workers.perReplica": ([1, 2], [0]),
    "workers.processes": ([1, 64], [0, 65]),
    f"{TEMPLATE}.spec.restartPolicy": (["Never"], ["Always", "never"]),
    f"{TEMPLATE}.spec.anything": ([None, {"a": [1, "b"]}], []),
    f"{TEMPLATE}.metadata": (
        [{}, {"labels": {"a": "b"}}],
        [{"labels": {"spotrun.dev/a": "b"}}, {"annotations": {"spotrun.dev/a": ""}}, {"x": 1}],
    ),
    CONTAINERS: (
        [[TRAINER], [TRAINER, SIDE], [{**TRAINER, "command": []}], [{**TRAINER, "x": 1}]],
        [[], [SIDE], [TRAINER, TRAINER], [SIDE, {**SIDE, "name": "b"}], [{"name": "trainer"}]],
    ),
    "scaling.mode": (["Auto", "Manual"], ["auto"]),
    "scaling.targets": (
        [[{"resource": "GPU"}, {"resource": "CPU", "utilizationPercent": 100}]],
        [[], [{"resource": "GPU"}] * 2, [{"resource": "Disk"}], [{}]],
    ),
    "scaling.minEfficiency": (["1", "0.000000000001", "1.00"], ["0", "1.000000000001", "0.0"]),
    "scaling.hourWorthUsd": ([*AMOUNTS, "0"], NO_AMOUNTS),
    "scaling.scaleUpAfter": ([*DURATIONS, "0s"], NO_DURATIONS),
    "placement.capacity": (["Spot", "OnDemand", "Mixed"], ["Reserved"]),
    "placement.onDemandBase": ([0, 1, 4], [-1]),
    "placement.maxPricePercent": ([1, 70, 100], [0, 101]),
    "placement.fallbackAfter": ([*DURATIONS, "0s"], NO_DURATIONS),
    "placement.giveBackAfter": ([*DURATIONS, "0s"], NO_DURATIONS),
    "placement.replicaTopology": ([{"preferred": "a/rack"}, {"required": "rack"}], [{}]),
    "placement.poolSelector": (SELECTORS, [{"matchLabels": {"a": "/"}}]),
    "deadline.finishWithin": (DURATIONS, [*NO_DURATIONS, "0s", "0h0m"]),
    "deadline.finishBefore": (
        ["2027-01-01T00:00:00Z", "2028-02-29T12:00:00.5+05:30"],
        ["2027-02-29T00:00:00Z", "2027-13-01T00:00:00Z", "2027-01-01", "2027-01-01T00:00:00"],
    ),
    "deadline.onMissed": (["Auto", "Cheapest", "OnDemand", "Fail"], [""]),
    "budget.maxCostUsd": (AMOUNTS, [*NO_AMOUNTS, "0", "0.000"]),
    "budget.maxUsdPerHour": (AMOUNTS, [*NO_AMOUNTS, "0"]),
    "budget.warnAtPercent": ([[], [50], [1, 100]], [[50, 50], [80, 50], [0], [101]]),
    "budget.onExceeded": (["Suspend", "Fail", "Warn"], ["Stop"]),
    "schedule.windows": (
        [[{"from": "20:00", "to": "06:00"}], [{"days": ["Sat"], "from": "00:00", "to": "24:00"}]],
        [[], [{"from": "20:00", "to": "20:00"}], [{"days": ["sat"], "from": "1:00", "to": "2:00"}]],
    ),
    "checkpoint": (
        [{"uri": "s3://bucket/a"}, {"volume": CLAIM}, {"volume": {"emptyDir": {}}}],
        [{}, {"uri": "s3://bucket", "volume": CLAIM}, {"uri": "http://a"}, {"volume": {}}],
    ),
    "failures.maxRestarts": ([0, 3], [-1]),
    "failures.fatalExitCodes": ([[1], [255, 3]], [[], [0], [256], [3, 3]]),
    "failures.hangAfter": ([*DURATIONS, "Auto"], [*NO_DURATIONS, "auto", "0s"]),
    "stages": (
        [
            [{"name": "a", "untilStep": 1}, {"name": "b", "params": {"lr": "1e-3"}}],
            [{"name": "a", "args": ["-x"], "stopWhen": {"metric": "a", "goal": "1"}}],
        ],
        [
            [],
            [{}],
            [{"name": "A"}],
            [{"name": "a", "untilStep": 0}],
            [{"name": "a"}, {"name": "b"}],
            [{"name": "a", "untilStep": 1}, {"name": "a"}],
            [{"name": "a", "untilStep": 2}, {"name": "b", "untilStep": 1}],
            [{"name": "a", "params": {"1": "1"}}],
            [{"name": "a", "params": {"a": 1}}],
        ],
    ),
    "stopWhen": (
        [{"metric": "a b", "goal": "-1e-9"}, {"metric": "a", "noBetterReports": 1}],
        [
            {"metric": "a"},
            {"metric": "", "goal": "1"},
            {"metric": "a", "goal": 1},
            {"metric": "a", "goal": "1", "minImprovement": "-0"},
        ],
    ),
    "finished.deleteAfter": ([*DURATIONS, "0s"], NO_DURATIONS),
    "misspelt": ([], [1, None]),
}
POOL: Choices = {
    "instanceTypes": ([["a"], ["a", "b"], [], LEFT_OUT], [["a", "a"], [""], "a"]),
    "zones": ([["a"], []], [["a", "a"]]),
    "capacity": (["Spot", "OnDemand", "Reserved"], ["Mixed", LEFT_OUT]),
    "nodeSelector": ([{"a": "b"}, {}], [{"a": "!"}]),
    "tolerations": (
        [[{"operator": "Exists"}], [{"key": "a", "value": "b"}]],
        [[{}], [{"key": "a", "operator": "Exists", "value": "b"}], [{"key": "a", "effect": "No"}]],
    ),
    "namespaceSelector": (SELECTORS, []),
    "usdPerHour": ([*AMOUNTS, "0"], NO_AMOUNTS),
    "ownNodes": (
        [OWN_NODES, {"purchaseUsd": "1", "years": "20", "utilization": "0.01"}],
        [{"purchaseUsd": "1"}, {**OWN_NODES, "years": "0"}, {**OWN_NODES, "pue": "0.99"}],
    ),
    "maxWorkers": ([1], [0]),
}


@st.composite
def _near(draw: st.DrawFn, choices: Choices, most_bad: int) -> dict[str, Any]:
    paths = draw(st.lists(st.sampled_from(sorted(choices)), unique=True, max_size=12))
    num_bad = draw(st.integers(0, most_bad))
    changes = {}
    for i, path in enumerate(paths):
        good, bad = choices[path]
        values = bad if i < num_bad and bad else good
        if values:
            changes[path] = draw(st.sampled_from(values))
    return changes


@st.composite
def _sizes(draw: st.DrawFn) -> dict[str, Any]:
    """Sizes at and around the bounds, which fit one another in about half of the cases."""
    largest = draw(st.sampled_from(SIZES))
    changes: dict[str, Any] = {"workers.max": largest}
    smallest = draw(st.sampled_from([None, 1, max(1, largest - 1), largest, largest + 1]))
    if smallest is not None:
        changes["workers.min"] = smallest
    if draw(st.booleans()):
        within = st.sampled_from([smallest or 1, largest, largest, (largest + 1) // 2, *SIZES])
        sizes = draw(st.lists(within, min_size=1, max_size=3))
        changes["workers.sizes"] = draw(st.sampled_from([sizes, sorted(set(sizes))]))
    return changes


def manifests() -> st.SearchStrategy[Manifest]:
    """Return jobs and pools, good and bad in about equal numbers."""
    jobs = st.builds(lambda a, b: job({**a, **b}), _sizes(), _near(JOB, most_bad=1))
    pools = _near(POOL, most_bad=1).map(pool)
    return st.one_of(jobs, jobs, jobs, pools)
