"""The words in the status of a TuningJob: phases, conditions, reasons."""

from spotrun.api.names import Choice


class TuningPhase(Choice):
    """The stage of a search."""

    RUNNING = "Running", "trials run, or are about to begin"
    SUSPENDED = "Suspended", "no trial begins, and running trials are suspended with a checkpoint"
    ENDING = "Ending", "no more trials begin; running trials finish or are stopped"
    SUCCEEDED = "Succeeded", "the search is over and has a best trial"
    FAILED = "Failed", "the search is over and has no best trial; the reason says why"


class TrialPhase(Choice):
    """The stage of a trial."""

    PENDING = "Pending", "its values are chosen and its money is reserved; its job is being created"
    RUNNING = "Running", "its TrainingJob exists and has not ended"
    STOPPING = "Stopping", "its workers end or are removed; its cost is not settled yet"
    SUCCEEDED = "Succeeded", "the training is complete, and the metric has a value"
    PRUNED = "Pruned", "it was stopped because others are better"
    STOPPED = "Stopped", "it was stopped because the search ended, or its money was used up"
    FAILED = "Failed", "it has no result; its reason says why"


class TuningConditionType(Choice):
    """The conditions of a TuningJob."""

    SEARCHING = "Searching", "more trials will begin"
    WITHIN_BUDGET = "WithinBudget", "the budget has room for another trial"
    METRIC_REPORTED = "MetricReported", "the trials report the metric of the objective"
    COMPLETE = "Complete", "the search is over and has a best trial"
    FAILED = "Failed", "the search is over and has no best trial"


class TuningReason(Choice):
    """The reasons in the status, the trials and the events of a TuningJob."""

    TRIALS_RUN = "TrialsRun", "trials run"
    TRIAL_BEGUN = "TrialBegun", "a trial begins; the message has its values and what it may cost"
    TRIAL_SUCCEEDED = "TrialSucceeded", "a trial is complete"
    TRIAL_PRUNED = "TrialPruned", "a trial was stopped because others are better"
    TRIAL_STOPPED = "TrialStopped", "a trial was stopped before its end"
    TRIAL_FAILED = "TrialFailed", "a trial has no result"
    TRIAL_DELETED = "TrialDeleted", "somebody deleted the TrainingJob of a running trial"
    TRIAL_REFUSED = "TrialRefused", "the API server refuses the TrainingJob of a trial"
    QUOTA_EXCEEDED = (
        "QuotaExceeded",
        "a trial waits, because a ResourceQuota has no room for its job",
    )
    SPEND_LIMITED = "SpendLimited", "a trial waits, because a SpendLimit has no room for its job"
    QUEUED = "Queued", "a trial waits: its queue has not admitted it, or has taken its quota back"
    GIVES_WAY = "GivesWay", "a trial waits, because a job of higher priority uses its nodes"
    OUTSIDE_SCHEDULE = "OutsideSchedule", "a trial waits for the next window of its schedule"
    IDLE = (
        "Idle",
        "a trial used almost nothing and was suspended; find out why, then resume its job",
    )
    NAME_TAKEN = "NameTaken", "a TrainingJob that is not the search's has the name of a trial"
    NEW_BEST = "NewBest", "a trial is better than all before it"
    ALL_TRIALS_DONE = "AllTrialsDone", "trials.max trials have ended"
    SPACE_EXHAUSTED = "SpaceExhausted", "all points of the grid were tried"
    GOAL_REACHED = "GoalReached", "a trial has reached objective.goal"
    NO_IMPROVEMENT = "NoImprovement", "stopWhen.noBetterTrials trials in a row were no better"
    BUDGET_EXHAUSTED = "BudgetExhausted", "budget.maxCostUsd has no room for another trial"
    BUDGET_EXCEEDED = "BudgetExceeded", "a trial has used up the money that was reserved for it"
    TIME_IS_UP = "TimeIsUp", "budget.maxDuration has passed"
    TOO_MANY_FAILURES = "TooManyFailures", "more than trials.maxFailed trials have failed"
    NOT_A_NUMBER = "NotANumber", "the metric of a trial is NaN or infinite"
    NO_METRIC = "NoMetric", "a trial ended without a value of the metric"
    NO_CHECKPOINT = "NoCheckpoint", "a trial of a population ended without a checkpoint"
    METRIC_MISSING = (
        "MetricMissing",
        "no trial reports the metric; the message says what is reported",
    )
    METRIC_REPORTED = "MetricReported", "the metric is reported"
    NOT_REPORTED_YET = "NotReportedYet", "no trial has run long enough to call the metric missing"
    WITHIN_BUDGET = "WithinBudget", "the budget has room for another trial"
    NO_LIMIT = "NoLimit", "there is no budget.maxCostUsd"
    SUSPENDED_BY_USER = "SuspendedByUser", "spec.suspend is true"
    SEARCH_REFUSED = "SearchRefused", "the parameters cannot be searched; the message says why"
    NO_VALUES_YET = (
        "NoValuesYet",
        "the search has no values for the next trial yet; the operator asks again",
    )
    NO_RESULT = "NoResult", "no trial has a value of the metric"
