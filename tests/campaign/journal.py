"""The outcome of each plan in a line of JSON: a campaign that was ended goes on from there."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.campaign.plan import Plan
from tests.campaign.run import Verdict

Line = dict[str, Any]


class Journal:
    """A file of lines, the newest last."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def lines(self) -> list[Line]:
        if not self._file.exists():
            return []
        return [json.loads(line) for line in self._file.read_text().splitlines() if line]

    def add(self, verdict: Verdict, **more: Any) -> Line:
        """Note a verdict; returns its line."""
        line = {
            "plan": str(verdict.plan),
            "ok": not verdict.complaints,
            "seconds": round(verdict.seconds, 1),
            "struck": verdict.struck,
            "complaints": verdict.complaints,
            **more,
        }
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("a") as file:
            file.write(json.dumps(line) + "\n")
        return line


def table(lines: Iterable[Line]) -> dict[str, dict[str, dict[str, int]]]:
    """Count plans, those whose faults struck, and those that failed, by kind and scenario."""
    runs: Counter[tuple[str, str]] = Counter()
    struck: Counter[tuple[str, str]] = Counter()
    failed: Counter[tuple[str, str]] = Counter()
    for line in lines:
        plan = Plan.read(line["plan"])
        for kind in {fault.kind for fault in plan.faults}:
            runs[kind, plan.scenario] += 1
            struck[kind, plan.scenario] += line["struck"] > 0
            failed[kind, plan.scenario] += not line["ok"]
    found: dict[str, dict[str, dict[str, int]]] = {}
    for (kind, scenario), count in sorted(runs.items()):
        cell = {"plans": count, "struck": struck[kind, scenario], "failed": failed[kind, scenario]}
        found.setdefault(kind, {})[scenario] = cell
    return found


def summary(lines: list[Line]) -> Line:
    """Return the last line of a campaign."""
    return {
        "campaign_plans": len(lines),
        "campaign_struck": sum(line["struck"] > 0 for line in lines),
        "campaign_failed": sum(not line["ok"] for line in lines),
        "kinds": len(table(lines)),
    }
