"""The messages between agents and operator, and the last words of a worker.

Standard library only: this is the only part of the operator that the trainer uses. An agent may be
older or newer than the operator, so readers ignore unknown fields. Known fields are checked and
bounded, because a report comes from a user's pod and is used in decisions and sums.
"""

from spotrun.wire.answer import Answer, How, Notice, Orders, World, read_answer, write_answer
from spotrun.wire.batch_words import batch_change
from spotrun.wire.device_words import FAULTY_DEVICE, WRONG_DEVICE, is_of_device
from spotrun.wire.metrics import (
    MOST_METRIC,
    MOST_METRICS,
    Metric,
    metric_name,
    metric_value,
    metrics_content,
    read_metrics,
    value_of_text,
    value_text,
)
from spotrun.wire.profile import (
    MOST_PROFILED_STEPS,
    Profile,
    profile_of_text,
    profile_text,
)
from spotrun.wire.progress import MOST_FAILURE_CHARACTERS, MOST_SPEED, Progress
from spotrun.wire.reading import MESSAGE_CHARACTERS, MOST_STEPS, one_line
from spotrun.wire.report import (
    MOST_SUSPECTS,
    REPORT_BYTES,
    Checkpoint,
    Failure,
    Report,
    Utilization,
    read_report,
    step_of,
    write_report,
)
from spotrun.wire.stage import Param, Stage, read_param
from spotrun.wire.store_use import StoreUse, read_store_use, store_use_content
from spotrun.wire.version import OldWireError
from spotrun.wire.words import (
    LAST_WORDS_BYTES,
    Ending,
    LastWords,
    read_last_words,
    write_last_words,
)

__all__ = [
    "FAULTY_DEVICE",
    "LAST_WORDS_BYTES",
    "MESSAGE_CHARACTERS",
    "MOST_FAILURE_CHARACTERS",
    "MOST_METRIC",
    "MOST_METRICS",
    "MOST_PROFILED_STEPS",
    "MOST_SPEED",
    "MOST_STEPS",
    "MOST_SUSPECTS",
    "REPORT_BYTES",
    "WRONG_DEVICE",
    "Answer",
    "Checkpoint",
    "Ending",
    "Failure",
    "How",
    "LastWords",
    "Metric",
    "Notice",
    "OldWireError",
    "Orders",
    "Param",
    "Profile",
    "Progress",
    "Report",
    "Stage",
    "StoreUse",
    "Utilization",
    "World",
    "batch_change",
    "is_of_device",
    "metric_name",
    "metric_value",
    "metrics_content",
    "one_line",
    "profile_of_text",
    "profile_text",
    "read_answer",
    "read_last_words",
    "read_metrics",
    "read_param",
    "read_report",
    "read_store_use",
    "step_of",
    "store_use_content",
    "value_of_text",
    "value_text",
    "write_answer",
    "write_last_words",
    "write_report",
]
