"""The phases of a growth, read from the notes of its processes."""

from pathlib import Path

from spotrun_trainer.telemetry import timeline
from tests.integration.trainer.traces import Trace, pids_of


def phases_of_growth(lines: Trace, marks: Path, size: int, began: float) -> dict[str, float]:
    """Seconds of each phase, as `bench/recovery.py` names them, to a world of that size.

    `lines` are the steps, and `marks` the folder with a trace of each process.
    """
    old = pids_of(line for line in lines if line["time"] < began)
    formed_at = {
        line["pid"]: line["t"]
        for file in sorted(marks.glob("*.jsonl"))
        for line in timeline.read(file)
        if line.get("mark") == "group" and line["t"] > began
    }
    ways = []
    for pid in sorted(old & formed_at.keys()):
        own = [line for line in lines if line["pid"] == pid]
        first = next(line for line in own if line["size"] == size and line["time"] > began)
        last_at = own[own.index(first) - 1]["time"]
        ways.append((formed_at[pid] - last_at, first["time"] - formed_at[pid]))
    formation, step = max(ways, key=sum)
    (joining_worker,) = pids_of(line for line in lines if line["size"] == size) - old
    transfer = _transfer_seconds(marks, joining_worker)
    return {"formation": formation, "transfer": transfer, "step": step}


def _transfer_seconds(marks: Path, joining_worker: int) -> float:
    (file,) = marks.glob(f"*-{joining_worker}.jsonl")
    return sum(
        float(line["seconds"]) for line in timeline.read(file) if line.get("span") == "restore"
    )
