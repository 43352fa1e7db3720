from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from demo.recording import Recorder
from demo.scene import Scene
from tests.unit.demo.scenes import TRAINING, at_step, without_workers
from tests.unit.demo.svgs import Drawn, read

SUMMARY = ("Succeeded: the training is complete", "  cost        $0.02 paid & $0.05 saved")


@dataclass
class Listener:
    """A screen that notes what it was given."""

    heard: list[object] = field(default_factory=list)

    def tell(self, text: str) -> None:
        self.heard.append(text)

    def show(self, scene: Scene) -> None:
        self.heard.append(scene)

    def close(self) -> None:
        self.heard.append("closed")

    def sum_up(self, lines: Sequence[str]) -> None:
        self.heard.append(lines)


class Studio:
    """A recorder whose clock is wound by hand."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.seconds = 1_000.0
        self.listener = Listener()
        self.recorder = Recorder(self.listener, file, now=lambda: self.seconds)

    def told(self, text: str, lasts: float = 1.0) -> None:
        self.recorder.tell(text)
        self.seconds += lasts

    def shown(self, scene: Scene, lasts: float = 1.0) -> None:
        self.recorder.show(scene)
        self.seconds += lasts

    def summed_up(self) -> Drawn:
        self.recorder.close()
        self.recorder.sum_up(SUMMARY)
        return read(self.file.read_text(encoding="utf-8"))


@pytest.fixture
def studio(tmp_path: Path) -> Studio:
    return Studio(tmp_path / "demo.svg")


def test_the_other_screen_shows_all_of_it(studio: Studio) -> None:
    studio.told("starting")
    studio.shown(TRAINING)
    studio.shown(TRAINING)
    studio.summed_up()
    expected = ["starting", TRAINING, TRAINING, "closed", SUMMARY]
    assert [*expected, f"{studio.file} shows it in 3 frames"] == studio.listener.heard


def test_lines_come_first_then_the_view_then_the_summary_below_it(studio: Studio) -> None:
    studio.told("starting Kubernetes")
    studio.told("adding three nodes")
    studio.shown(TRAINING)
    first, second, view, last = studio.summed_up().frames
    assert first == ["0:00 starting Kubernetes"]
    assert second == ["0:00 starting Kubernetes", "0:01 adding three nodes"]
    assert any("spot-b-1 spot us-east-1b" in line for line in view)
    assert any("adding three nodes" in line for line in view)
    assert any("worker 1 gets node spot-b-1" in line for line in view)
    expected = [*view[3:], "", *(" ".join(line.split()) for line in SUMMARY)]
    assert expected == last, "the top has scrolled out"


def test_only_what_a_viewer_cares_about_is_kept(studio: Studio) -> None:
    for step in range(10, 19):
        studio.shown(at_step(step), lasts=1.0)
    studio.told("POWER CUT: node spot-b-1 is gone")
    studio.shown(at_step(19))
    studio.shown(at_step(20))
    studio.shown(at_step(21, without_workers(TRAINING, [1])))
    *views, _ = studio.summed_up().frames
    steps = [next(line for line in view if line.startswith("│ step")) for view in views]
    expected = ["10", "16", "19", "21"]  # the first, progress, what was told, who trains
    assert expected == [line.split()[2] for line in steps]
    cut = "POWER CUT: node spot-b-1 is gone"
    assert [cut in " ".join(view) for view in views] == [False, False, True, True]


def test_the_description_says_what_came_out(studio: Studio) -> None:
    studio.shown(TRAINING, lasts=42.0)
    drawn = studio.summed_up()
    assert drawn.description.endswith(
        "At the end: Succeeded: the training is complete cost $0.02 paid & $0.05 saved"
    )
    assert drawn.title == "make demo, 1.0 times as fast as it was"


def test_it_is_as_wide_as_a_terminal_whatever_is_shown(studio: Studio) -> None:
    studio.told("x" * 300)
    studio.shown(replace(TRAINING, message="y" * 300))
    drawn = studio.summed_up()
    assert drawn.root.attrib["width"] == "832"
    places = [int(run.attrib["x"]) for run in drawn.root.iter() if "x" in run.attrib]
    assert max(places) < 832


def test_a_demo_that_is_not_summed_up_writes_nothing(studio: Studio) -> None:
    studio.shown(TRAINING)
    studio.recorder.close()
    assert not studio.file.exists()


def test_a_recording_stays_until_there_is_a_new_one(tmp_path: Path) -> None:
    file = tmp_path / "demo.svg"
    file.write_text("the last one")
    studio = Studio(file)
    assert file.read_text() == "the last one"
    studio.shown(TRAINING)
    studio.summed_up()


def test_that_it_can_no_longer_be_written_is_said(tmp_path: Path) -> None:
    studio = Studio(tmp_path / "demo.svg")
    studio.shown(TRAINING)
    studio.file.mkdir()
    with pytest.raises(ValueError, match=r"demo.svg' cannot be written: Is a directory. Name a f"):
        studio.recorder.sum_up(["it is over"])


def test_the_one_in_docs_shows_the_whole_story() -> None:
    file = Path(__file__).parents[3] / "docs/demo.svg"
    drawn = read(file.read_text(encoding="utf-8"))
    text = " ".join(" ".join(frame) for frame in drawn.frames)
    story = ["starting Kubernetes", "SPOT NOTICE", "is taken back", "POWER CUT", "Succeeded"]
    assert [words for words in story if words not in text] == []
    assert 15 <= len(drawn.frames) <= 25
    assert 25 <= sum(drawn.seconds) <= 30
    assert file.stat().st_size < 150_000
