"""The language of agents: what is written is read, and nothing an agent sends does harm."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.wire import (
    LAST_WORDS_BYTES,
    MESSAGE_CHARACTERS,
    MOST_METRIC,
    MOST_METRICS,
    MOST_STEPS,
    MOST_SUSPECTS,
    REPORT_BYTES,
    Answer,
    Checkpoint,
    Ending,
    Failure,
    How,
    LastWords,
    Metric,
    Notice,
    Orders,
    Progress,
    Report,
    Stage,
    StoreUse,
    Utilization,
    World,
    metric_value,
    read_answer,
    read_last_words,
    read_param,
    read_report,
    write_answer,
    write_last_words,
    write_report,
)

COUNTS = st.integers(0, MOST_STEPS)
PORTS = st.integers(1, 65_535)
SHARES = st.none() | st.floats(0, 1)
NAMES = st.builds("step-{}.g{}".format, st.integers(0, 10**15), st.integers(0, 10**9))
LINES = (
    st.text(max_size=100)
    .map(lambda text: "".join(char for char in text if char.isprintable()))
    .map(str.strip)
)
SAVED = st.tuples(st.integers(0, 10**15), st.integers(0, 10**9), st.none() | COUNTS).map(
    lambda at: Checkpoint(f"step-{at[0]}.g{at[1]}", at[0], at[2])
)
VALUES = st.floats(-MOST_METRIC, MOST_METRIC) | st.sampled_from([math.nan, math.inf, -math.inf])


def as_reported(value: float) -> float:
    known = metric_value(value)
    assert known is not None
    return known


METRICS = (
    st.dictionaries(
        st.text("abc/_ 1", min_size=1, max_size=64).map(str.strip).filter(bool),
        st.tuples(VALUES.map(as_reported), st.none() | COUNTS),
        max_size=MOST_METRICS,
    )
    .map(lambda values: [Metric(name, *value) for name, value in values.items()])
    # As a report carries them: numbers of JSON first.
    .map(lambda some: tuple(sorted(some, key=lambda one: not math.isfinite(one.value))))
)
HOSTS = st.from_regex(r"[A-Za-z0-9.:_-]{0,253}", fullmatch=True)
USES = st.builds(
    StoreUse,
    puts=COUNTS,
    gets=COUNTS,
    put_bytes=COUNTS,
    got_bytes=COUNTS,
    stored_bytes=st.none() | COUNTS,
    checkpoints=st.none() | COUNTS,
    region=HOSTS,
    endpoint=HOSTS,
)
REPORTS = st.builds(
    Report,
    wire=st.integers(1, 1000),
    ready=st.booleans(),
    arrived=COUNTS,
    failed=st.none() | st.builds(Failure, COUNTS, st.integers(0, 255), LINES),
    suspects=st.lists(st.integers(0, 10_000), max_size=MOST_SUSPECTS).map(tuple),
    store_port=st.none() | PORTS,
    utilization=st.builds(Utilization, SHARES, SHARES, SHARES),
    progress=st.none()
    | st.builds(
        Progress,
        world_number=COUNTS,
        step=COUNTS,
        total=st.none() | COUNTS,
        samples=COUNTS,
        step_seconds=st.none() | st.floats(0, 86_400),
        signs=COUNTS,
        compute=SHARES,
        data=SHARES,
        communicate=SHARES,
        microbatches=st.none() | COUNTS,
        sync_bytes=st.none() | COUNTS,
        epoch_samples=st.none() | COUNTS,
        flops=st.none() | st.floats(0, 1e21),
        link_bytes=st.none() | st.floats(0, 1e21),
        checkpoint_seconds=st.none() | st.floats(0, 1e9),
        metrics=METRICS,
        restored=st.none() | SAVED.map(lambda saved: saved.name),
        kept=st.none() | SAVED.map(lambda saved: saved.name),
        store=st.none() | USES,
        save_seconds=st.none() | st.floats(0, 86_400),
        save_failure=st.none() | LINES.filter(bool),
    ),
    committed=st.none() | SAVED,
    completed=st.booleans(),
    in_process=st.booleans(),
    needs_boundary=st.booleans(),
    leaving=st.booleans(),
    broken=COUNTS,
    saves_on_order=st.none() | st.booleans(),
    low_clock=st.none() | LINES.filter(bool),
)
STAGES = st.builds(
    Stage,
    name=st.text(),
    index=COUNTS,
    is_last=st.booleans(),
    until_step=st.none() | COUNTS,
    args=st.lists(st.text(), max_size=2).map(tuple),
    params=st.dictionaries(st.text(), st.text() | st.booleans() | st.integers(), max_size=2),
)
WORLDS = st.builds(
    World,
    number=COUNTS,
    rank=COUNTS,
    size=COUNTS,
    processes=COUNTS,
    store=st.none() | st.text(),
    secret=st.text(),
    neighbours=st.lists(st.text(), max_size=2).map(tuple),
    how=st.sampled_from(How),
    switch=st.booleans(),
    restore=st.none() | NAMES,
    planned=st.booleans(),
    stage=st.none() | STAGES,
    trained=COUNTS,
)
ANSWERS = st.builds(
    Answer,
    version=st.text(),
    phase=st.text(),
    world=st.none() | WORLDS,
    orders=st.builds(Orders, COUNTS, COUNTS),
    stop_at=st.none() | st.floats(0, 1e12),
    acknowledged=st.none() | NAMES,
    world_number=COUNTS,
    left_out=st.booleans(),
    notice=st.none() | st.builds(Notice, st.floats(0, 1e12), LINES),
    planned=st.booleans(),
    save_every=st.none() | st.floats(0, 1e12),
    keep=st.none() | st.integers(1, 1000),
)
WORDS = st.builds(
    LastWords,
    reason=st.sampled_from(Ending),
    step=st.none() | COUNTS,
    checkpoint=st.none() | NAMES,
    exit_code=st.none() | st.integers(0, 255),
    message=LINES,
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**400), 10**400)
    | st.floats()
    | st.text(st.characters(), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=4,
)
KEYS = (
    *("wire", "ready", "arrived", "failed", "suspects", "storePort", "utilization", "progress"),
    *("committed", "completed", "inProcess", "leaving", "version", "phase", "world", "orders"),
    *(
        "worldNumber",
        "number",
        "generation",
        "exitCode",
        "message",
        "gpu",
        "step",
        "total",
        "samples",
        "stepSeconds",
    ),
    *("signs", "checkpoint", "rank", "size", "processes", "store", "secret", "neighbours", "how"),
    *(
        "savesOnOrder",
        "lowClock",
        "planned",
        "trained",
        "stage",
        "args",
        "params",
        "untilStep",
        "stop",
        "orders",
    ),
    *(
        "broken",
        "stopAt",
        "switch",
        "restore",
        "restored",
        "kept",
        "reason",
        "leftOut",
        "needsBoundary",
    ),
)
HOSTILE = st.dictionaries(
    st.sampled_from(KEYS),
    JSON | st.dictionaries(st.sampled_from(KEYS), JSON, max_size=3),
    max_size=4,
)


@given(REPORTS)
def test_a_report_is_read_as_it_was_written(report: Report) -> None:
    assert read_report(write_report(report)) == report


@given(ANSWERS)
def test_an_answer_is_read_as_it_was_written(answer: Answer) -> None:
    assert read_answer(write_answer(answer)) == answer


@given(WORDS)
def test_last_words_are_read_as_they_were_written(words: LastWords) -> None:
    assert read_last_words(write_last_words(words)) == words


@given(
    st.builds(
        LastWords,
        reason=st.sampled_from(Ending),
        step=st.none() | st.integers(),
        checkpoint=st.none() | st.text(),
        exit_code=st.none() | st.integers(),
        message=st.text(st.characters(), min_size=0, max_size=5000),
    )
)
def test_last_words_always_fit_and_keep_their_reason(words: LastWords) -> None:
    line = write_last_words(words)
    assert len(line.encode()) <= LAST_WORDS_BYTES
    assert "\n" not in line
    heard = read_last_words(f"some noise\n{line}\n")
    assert heard is not None
    assert heard.reason is words.reason


@pytest.mark.parametrize("char", ["\U0001f525", "\ud800", "\n", "\x00", '"', "a"])
def test_last_words_fit_however_long_and_strange_the_message(char: str) -> None:
    line = write_last_words(
        LastWords(Ending.FAILED, message=char * 100_000, checkpoint=char * 9999)
    )
    assert len(line) <= LAST_WORDS_BYTES
    assert read_last_words(line) is not None


@given(HOSTILE)
def test_a_hostile_report_is_refused_or_bounded(content: dict[str, Any]) -> None:
    try:
        report = read_report(json.dumps(content).encode())
    except ValueError:
        return
    assert 0 <= report.arrived <= MOST_STEPS
    assert len(report.suspects) <= MOST_SUSPECTS
    if report.failed is not None:
        assert len(report.failed.message) <= MESSAGE_CHARACTERS
        report.failed.message.encode()  # it will be written into a status


@given(HOSTILE)
def test_a_hostile_answer_raises_nothing_but_value_errors(content: dict[str, Any]) -> None:
    try:
        read_answer(json.dumps(content).encode())
    except ValueError:
        return


@given(st.text(st.characters(), max_size=200) | HOSTILE.map(json.dumps))
def test_hostile_last_words_are_no_words(text: str) -> None:
    words = read_last_words(text)
    assert words is None or len(words.message) <= MESSAGE_CHARACTERS


@given(st.binary(max_size=300))
def test_bytes_that_are_no_json_are_refused(body: bytes) -> None:
    for read in (read_report, read_answer):
        with pytest.raises(ValueError, match=r"\w"):
            read(body)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"[" * 16_000, "not JSON"),
        (b'{"wire": 1, "arrived":' + b"[" * 600 + b"]" * 600 + b"}", "arrived is a whole number"),
        (b" " * (REPORT_BYTES + 1), "at most"),
        (b'{"wire": 0}', "no longer served"),
        (b"{}", "no longer served"),
        (b"[]", "not a JSON object"),
        (b'{"wire": 1, "arrived": NaN}', "not a number of JSON"),
        (b'{"wire": 1, "arrived": -1}', "from 0 to"),
        (b'{"wire": 1, "arrived": true}', "from 0 to"),
        (b'{"wire": 1, "arrived": 1e308}', "from 0 to"),
        (b'{"wire": 1, "arrived": "3"}', "from 0 to"),
        (b'{"wire": 1, "suspects": [0,1,2,3,4,5,6,7,8]}', "at most 8 ranks"),
        (b'{"wire": 1, "suspects": {"0": 1}}', "at most 8 ranks"),
        (b'{"wire": 1, "storePort": 65536}', "storePort"),
        (b'{"wire": 1, "utilization": {"gpu": 1.01}}', "gpu is a number from 0 to 1"),
        (b'{"wire": 1, "utilization": {"gpu": 1e999}}', "gpu is a number from 0 to 1"),
        (b'{"wire": 1, "utilization": {"gpu": ' + b"9" * 400 + b"}}", "gpu is a number"),
        (b'{"wire": 1, "progress": {"step": -5}}', "step"),
        (b'{"wire": 1, "progress": {"step": 1, "stepSeconds": 1e308}}', "stepSeconds"),
        (b'{"wire": 1, "progress": {"step": 1, "compute": 1.5}}', "compute is a number from 0 to"),
        (b'{"wire": 1, "progress": {"step": 1, "data": -0.1}}', "data is a number from 0 to 1"),
        (b'{"wire": 1, "progress": {"step": 1, "communicate": "x"}}', "communicate is a number"),
        (
            b'{"wire": 1, "progress": {"step": 1, "store": {"puts": -1}}}',
            "puts is a whole number from 0",
        ),
        (
            b'{"wire": 1, "progress": {"step": 1, "store": {"region": "us-east-1/../x"}}}',
            "region is a name, not 'us-east-1/../x'",
        ),
        (
            b'{"wire": 1, "progress": {"step": 1, "checkpointSeconds": 2e9}}',
            "checkpointSeconds is a",
        ),
        (b'{"wire": 1, "progress": {"step": 1, "microbatches": 0.5}}', "microbatches is a whole"),
        (b'{"wire": 1, "progress": {"step": 1, "syncBytes": -1}}', "syncBytes is a whole number"),
        (b'{"wire": 1, "progress": {"step": 9007199254740992}}', "from 0 to 9007199254740991"),
        (b'{"wire": 1, "arrived": ' + b"9" * 5_000 + b"}", "this is not JSON"),
        (b"hello", "this is not JSON"),
        (b'{"wire": 1, "committed": {"checkpoint": "../../etc"}}', "step-N.gG"),
        (b'{"wire": 1, "committed": {"checkpoint": "step-1.g1\\n"}}', "step-N.gG"),
        (b'{"wire": 1, "committed": {"checkpoint": "step-007.g1"}}', "step-N.gG"),
        (b'{"wire": 1, "committed": {"checkpoint": "step-\\u0663.g1"}}', "step-N.gG"),
        (b'{"wire": 1, "committed": {"checkpoint": "step-9007199254740992.g1"}}', "step-N.gG"),
        (b'{"wire": 1, "failed": {"worldNumber": 1, "exitCode": 256}}', "exitCode"),
        (b'{"wire": 1, "failed": []}', "failed is not a JSON object"),
    ],
)
def test_what_is_wrong_with_a_report_is_said(body: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_report(body)


@pytest.mark.parametrize(
    ("char", "num_metrics", "failure", "is_kept"),
    [
        ("a", MOST_METRICS, "a" * MESSAGE_CHARACTERS, True),
        ("\U0001d54f", MOST_METRICS, "a", True),
        ("\U0001d54f", 1, "\U0001d54f" * MESSAGE_CHARACTERS, True),
        ("\U0001d54f", MOST_METRICS, "\U0001d54f" * MESSAGE_CHARACTERS, False),
    ],
)
def test_a_report_that_is_too_long_is_heard_without_its_metrics(
    char: str, num_metrics: int, failure: str, *, is_kept: bool
) -> None:
    metrics = tuple(Metric(f"{n:02}" + 62 * char, 0.1 + n, n) for n in range(num_metrics))
    progress = Progress(MOST_STEPS, MOST_STEPS, metrics=metrics)
    report = Report(failed=Failure(MOST_STEPS, 255, failure), progress=progress)
    heard = read_report(write_report(report))
    kept = progress if is_kept else replace(progress, metrics=())
    assert heard == replace(report, progress=kept)


def of_progress(**content: object) -> Progress:
    body = json.dumps({"wire": 1, "progress": {"step": 7, **content}})
    progress = read_report(body.encode()).progress
    assert progress is not None
    return progress


def test_metrics_of_an_older_agent_have_no_steps() -> None:
    assert of_progress(metrics={"loss": 2.5}).metrics == (Metric("loss", 2.5),)


def test_an_older_operator_finds_what_it_knows_in_a_report_with_newer_metrics() -> None:
    metrics = (Metric("loss", 2.5, 6), Metric("grad", math.inf, 7), Metric("val", math.nan, 4))
    written = json.loads(write_report(Report(progress=Progress(1, 7, metrics=metrics))))
    assert written["progress"]["metrics"] == {"loss": 2.5}, "it refuses what is no number of JSON"
    assert written["progress"]["notFinite"] == {"grad": "Infinity", "val": "NaN"}
    assert written["progress"]["metricSteps"] == [6, 7, 4]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"metrics": {f"m{n}": 1 for n in range(17)}}, "at most 16 numbers"),
        ({"metrics": {"m": "1"}}, "at most 16 numbers"),
        ({"metrics": {"m": True}}, "at most 16 numbers"),
        ({"metrics": {"m": 1e301}}, "at most 16 numbers"),
        ({"metrics": {"m": 10**400}}, "at most 16 numbers"),
        ({"metrics": {"a\nb": 1}}, "short names"),
        ({"metrics": {"a" * 65: 1}}, "short names"),
        ({"notFinite": {"m": "nan"}}, "at most 16 numbers"),
        ({"metrics": {f"m{n}": 1 for n in range(16)}, "notFinite": {"x": "NaN"}}, "at most 16"),
        ({"metrics": {"m": 1}, "metricSteps": [1, 2]}, "metricSteps is a list of 1 steps"),
        ({"metrics": {"m": 1}, "metricSteps": [-1]}, "metricSteps is a whole number"),
    ],
)
def test_metrics_are_bounded(content: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        of_progress(**content)


def test_a_report_whose_metric_stays_nan_is_the_same_report() -> None:
    # A NaN is not equal to itself: each report would be news, and no hang would be seen.
    first, second = (of_progress(notFinite={"loss": "NaN"}) for _ in range(2))
    assert first == second


def test_what_a_newer_agent_says_beyond_is_ignored() -> None:
    body = b'{"wire": 7, "ready": true, "mood": {"good": [1, 2]}}'
    assert read_report(body) == Report(wire=7, ready=True)


def test_where_an_older_operator_does_not_say_why_a_world_ended_scripts_may_save() -> None:
    assert read_answer(b'{"wire": 1, "version": "v", "phase": "Running"}').planned


@pytest.mark.parametrize("name", ["worldNumber", "generation"])
def test_a_report_of_an_earlier_release_has_an_old_name_for_the_world_number(name: str) -> None:
    failed, progress = {name: 3, "exitCode": 1}, {name: 4, "step": 7}
    body = json.dumps({"wire": 1, "failed": failed, "progress": progress})

    found = read_report(body.encode())

    assert found == Report(failed=Failure(3, 1, ""), progress=Progress(4, 7))


@pytest.mark.parametrize("is_old", [True, False])
def test_an_answer_of_an_earlier_release_has_an_old_name_for_the_world_number(
    *, is_old: bool
) -> None:
    world = World(4, 0, 2, 1, None, "s", (), How.ABORT, switch=True, restore=None)
    answer = Answer("v", "Running", world, world_number=5)
    content = json.loads(write_answer(answer))
    of_world = ("number", "worldNumber") if is_old else ("generation", "generation")
    del content["world"][of_world[0]], content[of_world[1]]

    assert read_answer(json.dumps(content).encode()) == answer


def test_the_side_of_an_earlier_release_finds_the_world_number_under_its_old_name() -> None:
    report = json.loads(write_report(Report(failed=Failure(3, 1, ""), progress=Progress(4, 7))))
    answer = json.loads(write_answer(Answer("v", "Running", world_number=5)))

    assert report["failed"]["generation"] == 3
    assert report["progress"]["generation"] == 4
    assert answer["generation"] == 5


def test_what_an_older_agent_does_not_say_is_not_known() -> None:
    body = b'{"wire": 1, "progress": {"worldNumber": 2, "step": 7, "samples": 56}}'
    assert read_report(body).progress == Progress(2, 7, samples=56)


@pytest.mark.parametrize(
    ("said", "can_be_asked"),
    [
        pytest.param(b'"savesOnOrder": true', True, id="it says so"),
        pytest.param(b'"savesOnOrder": false', False, id="it says that it does not"),
        pytest.param(
            b'"savesOnOrder": false, "progress": {"step": 7}', False, id="its steps are counted"
        ),
        pytest.param(b'"progress": {"step": 7}', True, id="an older agent, under Run"),
        pytest.param(b'"inProcess": true', True, id="an older agent, under Run in process"),
        pytest.param(b'"committed": {"checkpoint": "step-1.g1"}', True, id="an older agent, saved"),
        pytest.param(b'"ready": true', False, id="an older agent, of a script that says nothing"),
        pytest.param(b'"savesOnOrder": "yes"', False, id="not a word of ours"),
    ],
)
def test_only_who_saves_when_ordered_can_be_asked_to(said: bytes, *, can_be_asked: bool) -> None:
    assert read_report(b'{"wire": 1, ' + said + b"}").can_be_asked_to_save is can_be_asked


def test_a_message_comes_as_one_clean_line() -> None:
    body = json.dumps(
        {"wire": 1, "failed": {"worldNumber": 1, "exitCode": 1, "message": "a\nb\x1b[31m\ud800 "}}
    )
    failed = read_report(body.encode()).failed
    assert failed == Failure(1, 1, "a b [31m")


@pytest.mark.parametrize(
    ("text", "heard"),
    [
        ("", None),
        ("Traceback ...\nValueError: no", None),
        ('{"reason": "tired"}', None),
        ('{"reason": ["failed"]}', None),
        ('{"reason": "failed", "exitCode": 3}', LastWords(Ending.FAILED, exit_code=3)),
        ('{"reason": "completed"}\n{"reason": "departed"}', LastWords(Ending.DEPARTED)),
        ('{"reason": "completed"}\nbye', LastWords(Ending.COMPLETED)),
    ],
)
def test_the_last_line_that_is_one_counts(text: str, heard: LastWords | None) -> None:
    assert read_last_words(text) == heard


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("4096", 4096),
        ("true", True),
        ("adam", "adam"),
        ("", ""),
        ('"x"', '"x"'),
        ("[1]", "[1]"),
        ("null", "null"),
        ("NaN", "NaN"),
        ("-Infinity", "-Infinity"),
        ("1e999", "1e999"),
    ],
)
def test_a_value_in_quotes_is_read_as_what_it_is(text: str, value: object) -> None:
    read = read_param(text)
    assert (read, type(read)) == (value, type(value))
