import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.segment import Segment
from rich.style import Style

from demo.picture import Frame, picture
from tests.unit.demo.svgs import read

GREEN = Style.parse("bold green")
FRAMES = [
    Frame(((Segment("job   "), Segment("Running", GREEN)), (Segment("step 1 of 9"),)), 2.0),
    Frame(((Segment("job   "), Segment("Running", GREEN)), (Segment("step 9 of 9"),)), 0.5),
    Frame(((Segment("it is over"),),), 5.5),
]


def drawn(*frames: Frame) -> str:
    return picture(frames, "a title", "what is seen")


def test_the_text_of_each_frame_is_in_the_picture() -> None:
    shown = read(drawn(*FRAMES))
    expected = [
        ["job Running", "step 1 of 9"],
        ["job Running", "step 9 of 9"],
        ["it is over"],
    ]
    assert expected == shown.frames
    assert (shown.title, shown.description) == ("a title", "what is seen")


def test_each_frame_is_shown_for_its_time() -> None:
    expected = [frame.seconds for frame in FRAMES]
    assert expected == pytest.approx(read(drawn(*FRAMES)).seconds, abs=0.001)


def test_one_frame_is_a_picture() -> None:
    shown = read(drawn(FRAMES[-1]))
    assert shown.frames == [["it is over"]]
    assert shown.seconds == [5.5]


def test_no_frame_is_refused() -> None:
    with pytest.raises(ValueError, match=r"nothing was shown, .*: record a whole demo"):
        picture([], "a title", "what is seen")


def test_without_animations_the_last_frame_is_seen() -> None:
    text = drawn(*FRAMES)
    width = int(read(text).root.attrib["width"])
    assert f'<g class="strip" transform="translate({-2 * width})">' in text
    assert "animation" not in text.partition("prefers-reduced-motion: no-preference")[0]
    assert text.count("animation:") == 1


def test_it_needs_nothing_but_itself() -> None:
    text = drawn(*FRAMES)
    assert re.findall(r"<script|@import|url\(|https?://[^\"]*", text) == [
        "http://www.w3.org/2000/svg"
    ]


def test_a_line_that_frames_share_is_written_once() -> None:
    assert drawn(*FRAMES).count("Running") == 1


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        ("", ""),
        ("green", ' fill="#98a84b"'),
        ("bold yellow", ' fill="#d0b344" font-weight="bold"'),
        ("dim", ' fill-opacity=".6"'),
        ("#0000ff", ' fill="#0000ff"'),
    ],
)
def test_text_looks_as_on_a_terminal(style: str, expected: str) -> None:
    frame = Frame(((Segment("x", Style.parse(style)),),), 1.0)
    assert f'<text x="16"{expected}>x</text>' in drawn(frame)


def test_columns_stay_columns_in_any_font() -> None:
    frame = Frame(((Segment("a b   cd", GREEN), Segment(" \u65e5\u672c ff"), Segment("  e")),), 1.0)
    runs = read(drawn(frame)).root.findall(".//*[@id='l0']/*")
    expected = [
        ("a b", "16", "24"),
        ("cd", "64", "16"),
        ("\u65e5\u672c ff", "88", "56"),
        ("e", "160", None),
    ]
    assert expected == [(run.text, run.attrib["x"], run.attrib.get("textLength")) for run in runs]


texts = st.text(st.characters(codec="utf-8"), max_size=12) | st.text(
    "<>&\"' x\x1b\x00\n", max_size=8
)
frames = st.builds(
    Frame,
    st.lists(st.tuples(texts.map(Segment)), min_size=1, max_size=4).map(tuple),
    st.floats(0.1, 9.0),
)


@settings(max_examples=50)
@given(st.lists(frames, min_size=1, max_size=5), texts)
def test_whatever_is_shown_is_escaped(frames: list[Frame], title: str) -> None:
    shown = read(picture(frames, title, title))
    for frame, lines in zip(frames, shown.frames, strict=True):
        told = [" ".join(segment.text for segment in line).split() for line in frame.lines]
        assert [" ".join(map(legible, words)) for words in told] == lines
    assert [frame.seconds for frame in frames] == pytest.approx(shown.seconds, abs=0.01)


def legible(text: str) -> str:
    """What is left of it in XML."""
    return "".join(letter if _is_xml(letter) else "?" for letter in text)


def _is_xml(letter: str) -> bool:
    try:
        ET.fromstring(f"<a>&#{ord(letter)};</a>")  # noqa: S314 - our own
    except ET.ParseError:
        return False
    return True
