"""The gate of a page that is served behind an authentication: what it refuses by itself."""

import pytest

from spotrun.__main__ import main
from spotrun.cli.page.door import Asked
from spotrun.cli.page.gate import Gate

HOST = "spotrun.example.com"
GATE = Gate((HOST, "localhost:8443"))


def status(path: str = "/", method: str = "GET", **more: str) -> int:
    headers = {"Host": HOST} | {key.replace("_", "-"): value for key, value in more.items()}
    refusal = GATE.refusal(Asked(method, path, headers))
    return 200 if refusal is None else refusal.status


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({}, id="a program"),
        pytest.param({"Host": "localhost:8443"}, id="the other name"),
        pytest.param(
            {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"},
            id="back from an identity provider",
        ),
        pytest.param({"Sec_Fetch_Site": "same-origin", "Origin": f"https://{HOST}"}, id="itself"),
    ],
)
def test_visits_of_the_page_are_let_through(headers: dict[str, str]) -> None:
    assert status(**headers) == 200


@pytest.mark.parametrize(
    ("path", "headers", "expected"),
    [
        ("/", {"Host": "evil.example"}, 421),
        ("/", {"Host": ""}, 421),
        ("/", {"Host": f"{HOST}.evil.example"}, 421),
        ("/", {"Host": "10.1.2.3:8080"}, 421),
        ("/", {"Host": "localhost"}, 421),
        ("/", {"Origin": "https://evil.example"}, 403),
        ("/", {"Origin": "null"}, 403),
        ("/", {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "no-cors"}, 403),
        ("/api/fleet", {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}, 403),
        ("/api/fleet", {"Sec_Fetch_Site": "same-site", "Sec_Fetch_Mode": "cors"}, 403),
    ],
)
def test_other_names_and_other_sites_are_refused(
    path: str, headers: dict[str, str], expected: int
) -> None:
    assert status(path, **headers) == expected


def test_nothing_can_be_written() -> None:
    writing = ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD")
    assert {status(method=method) for method in writing} == {405}
    refusal = GATE.refusal(Asked("GET", "/", {"Host": HOST}, has_body=True))
    assert refusal is not None
    assert refusal.status == 400


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--host", HOST], "--authenticated-by"),
        (["--authenticated-by", "oauth2-proxy"], "--host"),
        (["--host", HOST, "--authenticated-by", " "], "say what authenticates"),
    ],
)
def test_a_page_that_nothing_guards_does_not_start(
    given: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["page", *given])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err
