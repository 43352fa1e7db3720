"""The picture of a loss is drawn from a trace, and shows who did what when."""

import json
from pathlib import Path
from xml.etree import ElementTree as ET

from bench.recovery import IT_HAPPENS, NOTES_FILE
from bench.recovery_picture import draw, read

T = 1_000.0  # the loss


def write(file: Path, lines: list[dict[str, object]]) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_dropped_step_ends_where_it_was_noticed_and_comes_again(tmp_path: Path) -> None:
    steps = [(T - 1.0, 1, 0, 2, 10), (T - 1.0, 1, 1, 2, 11), (T - 0.2, 2, 0, 2, 10)]
    steps += [(T - 0.2, 2, 1, 2, 11), (T + 0.9, 3, 0, 1, 11), (T + 1.5, 4, 0, 1, 11)]
    names = ("time", "step", "rank", "size", "pid")
    write(tmp_path / "trace.jsonl", [dict(zip(names, step, strict=True)) for step in steps])
    marks = [{"t": T + 0.1, "mark": "broken"}, {"t": T + 0.2, "mark": "group"}]
    write(tmp_path / "phases" / "p.jsonl", [{**mark, "pid": 11} for mark in marks])
    notes = [{"t": T, "said": IT_HAPPENS}, {"t": T + 0.15, "said": "world 2: workers 1"}]
    write(tmp_path / NOTES_FILE, notes)
    lanes, since, until = read(tmp_path)
    assert [lane.name for lane in lanes] == ["rank 0", "rank 1", "operator"]
    lost, survivor, operator = lanes
    assert [(b.kind, b.label) for b in lost.bars] == [("step", "step 2"), ("lost", "step 3")]
    assert [(b.kind, b.label, round(b.began, 3), round(b.ended, 3)) for b in survivor.bars] == [
        ("step", "step 2", -1.0, -0.2),
        ("dropped", "step 3, dropped", -0.2, 0.1),
        ("step", "step 3", 0.2, 0.9),
        ("step", "step 4", 0.9, 1.5),
    ]
    assert [moment.label for moment in operator.moments] == ["world 2: workers 1"]
    picture = ET.fromstring(draw(lanes, since, until))  # noqa: S314 - our own
    assert "step 3, dropped" in "".join(picture.itertext())
