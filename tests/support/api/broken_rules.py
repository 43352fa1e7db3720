"""Bad manifests, each with what is said about it: what breaks a rule between fields."""

from tests.support.api.limit_cases import BAD_LIMITS
from tests.support.api.malformed_values import FORMS, SHAPES
from tests.support.api.manifest_cases import (
    BUDGET,
    CLAIM,
    CONTAINERS,
    DEADLINE,
    EXPRESSION,
    LEFT_OUT,
    OWN_POOL,
    SCHEDULE,
    SELECTOR,
    SEVERAL,
    TEMPLATE,
    Case,
    job,
    pool,
)
from tests.support.api.search_cases import BAD_SEARCHES

_PLACE = {"uri": "s3://bucket/a"}
_DURABLE = "give checkpoint.volume with persistentVolumeClaim, nfs or csi"

RULES = (
    Case(
        "a controller without a domain",
        "must be a name with a domain",
        {"managedBy": "multikueue"},
    ),
    Case("min above max", "min must not be above max: raise max", {"workers.min": 2}),
    Case(
        "sizes that fall",
        "sizes must ascend, each number once",
        {"workers.sizes": [4, 2]},
        job({"workers.max": 4}),
    ),
    Case(
        "a size twice",
        "sizes must ascend, each number once",
        {"workers.sizes": [2, 2]},
        job({"workers.max": 4}),
    ),
    Case("a size above max", "sizes must lie between min and max", {"workers.sizes": [1, 2]}),
    Case("half a replica", "must be multiples of perReplica", {"workers.perReplica": 2}),
    Case(
        "half a replica as size",
        "must be multiples of perReplica",
        {"workers.sizes": [2, 3]},
        job({"workers": {**job()["spec"]["workers"], "min": 2, "max": 4, "perReplica": 2}}),
    ),
    Case(
        "a topology that is preferred and required",
        "replicaTopology takes either preferred or required",
        {"placement.replicaTopology": {"preferred": "rack", "required": "rack"}},
    ),
    Case(
        "a topology without a label",
        "replicaTopology takes either preferred or required",
        {"placement.replicaTopology": {}},
    ),
    Case(
        "a resource twice",
        "targets must name each resource at most once",
        {"scaling.targets": [{"resource": "GPU"}, {"resource": "GPU"}]},
    ),
    Case(
        "on-demand workers on spot only",
        "onDemandBase asks for on-demand workers, which capacity: Spot excludes",
        {"placement": {"capacity": "Spot", "onDemandBase": 1}},
    ),
    Case(
        "a spot price without spot",
        "maxPricePercent limits what spot may cost, and capacity: OnDemand uses none",
        {"placement": {"capacity": "OnDemand", "maxPricePercent": 50}},
    ),
    Case(
        "half a replica kept",
        "placement.lend.atLeast must be a multiple of workers.perReplica",
        {
            "workers": {**job()["spec"]["workers"], "min": 2, "max": 4, "perReplica": 2},
            "placement": {"lend": {"priorityClassName": "low", "atLeast": 1}},
        },
    ),
    Case(
        "more on-demand than workers",
        "placement.onDemandBase must not be above workers.max",
        {"placement.onDemandBase": 2},
    ),
    Case(
        "idleness in less than it takes to be called so",
        "must be a duration of at least 15 minutes",
        {"idle.suspendAfter": "899s"},
        SCHEDULE,
    ),
    Case(
        "idleness without a place for its checkpoint",
        "idle.suspendAfter suspends the job, which needs a checkpoint that outlives the pods",
        {"idle.suspendAfter": "2h"},
    ),
    Case(
        "stages of one name",
        "stages must have different names",
        {"stages": [{"name": "a", "untilStep": 1}, {"name": "a"}], "checkpoint": _PLACE},
    ),
    Case(
        "stages that go back",
        "untilStep must grow from stage to stage",
        {
            "stages": [{"name": "a", "untilStep": 9}, {"name": "b", "untilStep": 9}],
            "checkpoint": _PLACE,
        },
    ),
    Case(
        "a stage without an end",
        "each stage but the last needs untilStep or stopWhen",
        {"stages": [{"name": "a"}, {"name": "b"}], "checkpoint": _PLACE},
    ),
    Case("stages that are not kept", "stages need a checkpoint", {"stages": [{"name": "a"}]}),
    Case(
        "a parameter that Python cannot name",
        "names of params are letters, digits and _",
        {"stages": [{"name": "a", "params": {"a-b": "1"}}], "checkpoint": _PLACE},
    ),
    Case(
        "a metric that stops nothing",
        "stopWhen needs a goal, noBetterReports or noBetterSteps",
        {"stopWhen.metric": "loss"},
    ),
    Case(
        "a metric's improvement below zero",
        "stopWhen.minImprovement must not be negative",
        {"stopWhen": {"metric": "loss", "goal": "1", "minImprovement": "-1"}},
    ),
    Case(
        "an on-demand deadline on spot only",
        "deadline.onMissed: OnDemand needs on-demand capacity",
        {"deadline.onMissed": "OnDemand", "placement.capacity": "Spot"},
        DEADLINE,
    ),
    Case(
        "two deadlines",
        "deadline needs exactly one of finishWithin and finishBefore",
        {"deadline.finishBefore": "2027-01-01T00:00:00Z"},
        DEADLINE,
    ),
    Case("no deadline", "deadline needs exactly one of", {"deadline": {}}),
    Case(
        "a budget of nothing",
        "budget must limit something: give maxCostUsd, maxUsdPerHour or both",
        {"budget": {}},
    ),
    Case(
        "warnings that fall",
        "warnAtPercent must ascend, each level once",
        {"budget.warnAtPercent": [80, 50]},
        BUDGET,
    ),
    Case("suspension without a checkpoint", _DURABLE, {"checkpoint": LEFT_OUT}, BUDGET),
    Case(
        "suspension on an emptyDir",
        "budget.onExceeded: Suspend, the default, needs a checkpoint that outlives the pods",
        {"checkpoint.volume": {"emptyDir": {}}},
        BUDGET,
    ),
    Case(
        "a schedule without a checkpoint",
        "schedule suspends the job between its windows, which needs a checkpoint",
        {"checkpoint": LEFT_OUT},
        SCHEDULE,
    ),
    Case(
        "a window of nothing",
        "from and to must differ: a whole day is from 00:00 to 24:00",
        {"schedule.windows.0.to": "20:00"},
        SCHEDULE,
    ),
    Case(
        "a budget for a volume",
        "checkpoint.budgetUsd limits the cost of the store of uri: give uri, or leave",
        {"checkpoint.budgetUsd": "20"},
    ),
    Case(
        "a beginning from what died with its pod",
        "checkpoint.beginFrom needs a place that both jobs reach",
        {"checkpoint.volume.emptyDir": {}, "checkpoint.beginFrom": {"job": "base"}},
    ),
    Case("no place", "checkpoint needs exactly one place: give volume or uri", {"checkpoint": {}}),
    Case(
        "two places",
        "checkpoint needs exactly one place: give volume or uri",
        {"checkpoint.volume": CLAIM},
        SCHEDULE,
    ),
    Case(
        "two kinds of volume",
        "volume must have exactly one of persistentVolumeClaim, nfs, csi and emptyDir",
        {"checkpoint.volume.emptyDir": {}},
        BUDGET,
    ),
    Case(
        "no kind of volume",
        "volume must have exactly one of",
        {"checkpoint.volume": {}},
    ),
    Case(
        "a relative export",
        'path must be absolute, like "/exports/checkpoints"',
        {"checkpoint.volume.nfs": {"server": "nfs", "path": "a"}},
    ),
    Case(
        "an exit code twice",
        "fatalExitCodes must name each code once",
        {"failures.fatalExitCodes": [3, 3]},
    ),
    Case(
        "two containers of a name",
        "containers must have different names",
        {f"{CONTAINERS}.1.name": "trainer"},
        SEVERAL,
    ),
    Case(
        "nobody is called trainer",
        "with several containers it must be clear which one trains",
        {f"{CONTAINERS}.0.name": "main"},
        SEVERAL,
    ),
    Case(
        "a command",
        "the container that trains takes no command, because the operator runs torchrun",
        {f"{CONTAINERS}.0.command": ["python"]},
    ),
    Case(
        "a command beside others",
        "put the script and its arguments in args",
        {f"{CONTAINERS}.0.command": ["python"]},
        SEVERAL,
    ),
    Case(
        "restarts in place",
        "restartPolicy must be Never or left out",
        {f"{TEMPLATE}.spec.restartPolicy": "OnFailure"},
    ),
    Case(
        "a label of ours",
        "labels under spotrun.dev/ belong to the operator",
        {f"{TEMPLATE}.metadata.labels": {"spotrun.dev/job": "x"}},
    ),
    Case(
        "an annotation of ours",
        "annotations under spotrun.dev/ belong to the operator",
        {f"{TEMPLATE}.metadata.annotations": {"spotrun.dev/cost-usd": "0"}},
    ),
    Case(
        "a long name",
        "metadata.name must be at most 50 characters and without dots",
        {"/metadata.name": "a" * 51},
    ),
    Case("a dot in the name", "without dots", {"/metadata.name": "a.b"}),
    Case(
        "In without values",
        "operator In or NotIn needs values: name at least one",
        {EXPRESSION: [{"key": "a", "operator": "In"}]},
        SELECTOR,
    ),
    Case(
        "Exists with values",
        "operator Exists or DoesNotExist takes no values: leave them out",
        {EXPRESSION: [{"key": "a", "operator": "Exists", "values": ["b"]}]},
        SELECTOR,
    ),
    Case(
        "a pool of nothing",
        "a pool must say which nodes belong to it: give instanceTypes, nodeSelector or both",
        {"instanceTypes": []},
        pool(),
    ),
    Case(
        "a type twice",
        "instanceTypes must not name a value twice",
        {"instanceTypes": ["a", "a"]},
        pool(),
    ),
    Case("a zone twice", "zones must not name a value twice", {"zones": ["a", "a"]}, pool()),
    Case(
        "a toleration of nothing",
        "a toleration without a key needs operator: Exists",
        {"tolerations": [{"value": "a"}]},
        pool(),
    ),
    Case(
        "a toleration too many",
        "a toleration with operator: Exists takes no value",
        {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
        pool(),
    ),
    Case(
        "patience without NoExecute",
        "tolerationSeconds needs effect: NoExecute",
        {"tolerations": [{"key": "a", "tolerationSeconds": 1}]},
        pool(),
    ),
    Case(
        "two prices of a node",
        "usdPerHour and ownNodes both say what a node costs: give one of them",
        {"usdPerHour": "1"},
        OWN_POOL,
    ),
    Case(
        "own nodes that are taken away",
        "a cloud cannot take your own nodes away: ownNodes needs capacity: Reserved or OnDemand",
        {"capacity": "Spot"},
        OWN_POOL,
    ),
    Case(
        "power for nothing",
        "powerKw and usdPerKwh go together: give both, or neither",
        {"ownNodes": {"purchaseUsd": "1", "years": "4", "powerKw": "7.5"}},
        OWN_POOL,
    ),
)

INVALID = RULES + FORMS + SHAPES + BAD_SEARCHES + BAD_LIMITS
