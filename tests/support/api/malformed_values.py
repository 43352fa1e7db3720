"""Bad manifests, each with what is said about it: wrong forms of text, wrong shapes of fields."""

from tests.support.api.manifest_cases import (
    BUDGET,
    CONTAINERS,
    DEADLINE,
    EXPRESSION,
    FULL,
    LEFT_OUT,
    OWN_POOL,
    SCHEDULE,
    SELECTOR,
    TEMPLATE,
    TRAINER,
    Case,
    job,
    pool,
)

_DURATION = 'must be a duration in h, m, s and ms, largest unit first, like "90s" or "1h30m"'
FORMS = (
    Case(
        "days in a duration",
        "there are no days: write 48h",
        {"deadline.finishWithin": "2d"},
        DEADLINE,
    ),
    Case(
        "a deadline at once",
        "must be a duration longer than 0s",
        {"deadline.finishWithin": "0s"},
        DEADLINE,
    ),
    Case("a negative duration", _DURATION, {"scaling.scaleUpAfter": "-1s"}),
    Case("a duration in seconds", "must be of type string", {"scaling.scaleUpAfter": 120}),
    Case("an empty duration", _DURATION, {"finished.deleteAfter": ""}),
    Case(
        "checkpoints at all times",
        "must be Auto or a duration longer than 0s",
        {"checkpoint.every": "0ms"},
        SCHEDULE,
    ),
    Case(
        "a hang at once",
        "must be Auto or a duration longer than 0s",
        {"failures.hangAfter": "auto"},
    ),
    Case("efficiency of nothing", "above 0 and at most 1", {"scaling.minEfficiency": "0.0"}),
    Case("efficiency above one", "above 0 and at most 1", {"scaling.minEfficiency": "1.01"}),
    Case("a negative worth", "of at least 0 in quotes", {"scaling.hourWorthUsd": "-1"}),
    Case("money as a number", "must be of type string", {"budget.maxCostUsd": 12.5}, BUDGET),
    Case("money with a sign", "above 0 in quotes", {"budget.maxCostUsd": "$12"}, BUDGET),
    Case("no money", "above 0 in quotes", {"budget.maxCostUsd": "0.00"}, BUDGET),
    Case("a gift", "above 0 in quotes", {"ownNodes.purchaseUsd": "0"}, OWN_POOL),
    Case("a node for ever", "must be years from 0.5 to 20", {"ownNodes.years": "21"}, OWN_POOL),
    Case("a node for days", "must be years from 0.5 to 20", {"ownNodes.years": "0.4"}, OWN_POOL),
    Case("watts", "at most 200, in quotes", {"ownNodes.powerKw": "7500"}, OWN_POOL),
    Case("cents", "must be USD per kWh, at most 5", {"ownNodes.usdPerKwh": "14"}, OWN_POOL),
    Case("cooling for free", "effectiveness from 1 to 5", {"ownNodes.pue": "0.9"}, OWN_POOL),
    Case("half of it cooling", "effectiveness from 1 to 5", {"ownNodes.pue": "5.1"}, OWN_POOL),
    Case("a node nobody uses", "at most 1 in quotes", {"ownNodes.utilization": "0"}, OWN_POOL),
    Case("staff that pays", "of at least 0", {"ownNodes.usdPerMonth": "-1"}, OWN_POOL),
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
    *(
        Case(
            name,
            f"(this is {shown})",
            {"checkpoint.uri": uri},
            SCHEDULE,
            server="must be a place in S3",
        )
        for name, uri, shown in (
            ("a query in a uri", "s3://bucket/a?sig=x", "'s3://bucket/a?...'"),
            ("a key in a uri", "s3://A:b/c@bucket/a", "'s3://...@bucket/a'"),
            ("a variable in a uri", "s3://bucket/$(POD_IP)", "'s3://bucket/$(POD_IP)'"),
            ("a fragment in a uri", "s3://bucket/a#b", "'s3://bucket/a#b'"),
            ("a uri upwards", "s3://bucket/a/../b", "'s3://bucket/a/../b'"),
            ("a uri that ends upwards", "gs://bucket/..", "'gs://bucket/..'"),
            ("an account without a container", "az://account", "'az://account'"),
            ("an account and no container", "az://account/", "'az://account/'"),
        )
    ),
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
