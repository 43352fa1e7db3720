"""Bad manifests, each with what is said about it."""

from tests.api_cases import (
    BUDGET,
    CLAIM,
    CONTAINERS,
    DEADLINE,
    EXPRESSION,
    FULL,
    LEFT_OUT,
    SCHEDULE,
    SELECTOR,
    SEVERAL,
    TEMPLATE,
    TRAINER,
    Case,
    job,
    pool,
)

_DURATION = 'must be a duration in h, m, s and ms, largest unit first, like "90s" or "1h30m"'
_DURABLE = "give checkpoint.uri, or checkpoint.volume with persistentVolumeClaim, nfs or csi"

RULES = (
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
        "more on-demand than workers",
        "placement.onDemandBase must not be above workers.max",
        {"placement.onDemandBase": 2},
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
        "the container that trains takes no command, for the operator runs torchrun",
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
        "a pool must say which nodes it is: give instanceTypes, nodeSelector or both",
        {"instanceTypes": []},
        pool(),
    ),
    Case(
        "a type twice",
        "instanceTypes must name each of them once",
        {"instanceTypes": ["a", "a"]},
        pool(),
    ),
    Case("a zone twice", "zones must name each of them once", {"zones": ["a", "a"]}, pool()),
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
)

FORMS = (
    Case(
        "days in a duration",
        "there are no days: write 48h",
        {"deadline.finishWithin": "2d"},
        DEADLINE,
    ),
    Case("a deadline at once", "must be longer than 0s", {"deadline.finishWithin": "0s"}, DEADLINE),
    Case("a negative duration", _DURATION, {"scaling.scaleUpAfter": "-1s"}),
    Case("a duration in seconds", "must be of type string", {"scaling.scaleUpAfter": 120}),
    Case("an empty duration", _DURATION, {"finished.deleteAfter": ""}),
    Case(
        "checkpoints at all times",
        "must be Auto or longer than 0s",
        {"checkpoint.every": "0ms"},
        SCHEDULE,
    ),
    Case("a hang at once", "must be Auto or longer than 0s", {"failures.hangAfter": "auto"}),
    Case("efficiency of nothing", "above 0 and at most 1", {"scaling.minEfficiency": "0.0"}),
    Case("efficiency above one", "above 0 and at most 1", {"scaling.minEfficiency": "1.01"}),
    Case("a negative worth", "of at least 0 in quotes", {"scaling.hourWorthUsd": "-1"}),
    Case("money as a number", "must be of type string", {"budget.maxCostUsd": 12.5}, BUDGET),
    Case("money with a sign", "above 0 in quotes", {"budget.maxCostUsd": "$12"}, BUDGET),
    Case("no money", "above 0 in quotes", {"budget.maxCostUsd": "0.00"}, BUDGET),
    Case("a price below zero", "of at least 0 in quotes", {"usdPerHour": "-1"}, pool()),
    Case(
        "a moment without a zone",
        "must be a time with its zone as RFC 3339 has it",
        {"deadline": {"finishBefore": "2027-01-01T00:00:00"}},
        DEADLINE,
    ),
    Case(
        "a day that is not",
        "must be a time with its zone",
        {"deadline": {"finishBefore": "2027-02-30T00:00:00Z"}},
        DEADLINE,
        server="spec.deadline.finishBefore",
    ),
    Case("an odd size", "must be a quantity", {"checkpoint.volume.emptyDir.sizeLimit": "2GB"}),
    Case("a file as uri", "must be a place in S3", {"checkpoint.uri": "file:///a"}, SCHEDULE),
    Case("a lower-case day", "must be a day or", {"schedule.windows.0.days": ["mon"]}, SCHEDULE),
    Case("25 o'clock", "must be a time of day", {"schedule.windows.0.from": "25:00"}, SCHEDULE),
    Case("24:00 begins nothing", '"23:59"', {"schedule.windows.0.from": "24:00"}, SCHEDULE),
    Case("8 o'clock in brief", '"24:00"', {"schedule.windows.0.to": "8:00"}, SCHEDULE),
    Case("an odd zone", "the name of a time zone", {"schedule.windows.0.timeZone": "+1"}, SCHEDULE),
    Case(
        "a bad claim",
        "lower-case letters",
        {"checkpoint.volume.persistentVolumeClaim.claimName": "A"},
        BUDGET,
    ),
    Case("a bad container", "no hyphen at an end", {f"{CONTAINERS}.0.name": "a-"}),
    Case(
        "a bad label key",
        "must be a label key",
        {EXPRESSION: [{"key": "/", "operator": "Exists"}]},
        SELECTOR,
    ),
    Case(
        "a bad label value",
        "must be a label value",
        {"placement.poolSelector.matchLabels": {"a": "!"}},
        SELECTOR,
    ),
)

SHAPES = (
    Case("no workers", "spec.workers: Required value", {"workers": LEFT_OUT}),
    Case("no template", "template: Required value", {TEMPLATE: LEFT_OUT}),
    Case("no image", "image: Required value", {f"{CONTAINERS}.0.image": LEFT_OUT}),
    Case("no containers", "should have at least 1 items", {CONTAINERS: []}),
    Case("a misspelt field", 'unknown field "spec.worker"', {"worker": {}}),
    Case("a deep misspelt field", 'unknown field "spec.workers.maximum"', {"workers.maximum": 1}),
    Case(
        "our own spelling", 'unknown field "spec.workers.per_replica"', {"workers.per_replica": 1}
    ),
    Case("no worker", "should be greater than or equal to 1", {"workers.min": 0}),
    Case("very many workers", "should be less than or equal to 10000", {"workers.max": 10001}),
    Case(
        "utilization above all", "less than or equal to 100", {"placement.maxPercentPerPool": 101}
    ),
    Case("a negative exit code", "greater than or equal to 1", {"failures.fatalExitCodes": [0]}),
    Case("no workers in a pool", "greater than or equal to 1", {"maxWorkers": 0}, pool()),
    Case("an unknown choice", 'Unsupported value: "spot"', {"placement.capacity": "spot"}),
    Case("a pool without a kind", "capacity: Required value", {"capacity": LEFT_OUT}, pool()),
    Case("text for a number", "must be of type integer", {"workers.min": "1"}),
    Case("text for a choice", "must be of type boolean", {"suspend": "yes"}),
    Case("an object for a list", "must be of type array", {"workers.sizes": {}}),
    Case("a null", "workers: Required value", {"workers": None}),
    Case(
        "too many sizes",
        "Too many: ",
        {"workers.sizes": list(range(1, 66))},
        job({"workers.max": 99}),
    ),
    Case("too many containers", "Too many: ", {CONTAINERS: [TRAINER] * 17}, FULL),
    Case(
        "a long image",
        "Too long: may not be more than 1024 bytes",
        {f"{CONTAINERS}.0.image": "a" * 1025},
    ),
)

INVALID = RULES + FORMS + SHAPES
