"""The environment's proxies mean what they mean to kubectl."""

import pytest

from spotrun.kube.rest.proxies import proxy_of

SERVER = "https://api.prod.example:6443"
PROXY = "http://proxy.example:3128"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, None),
        ({"HTTPS_PROXY": PROXY}, PROXY),
        ({"https_proxy": PROXY}, PROXY),
        ({"HTTPS_PROXY": PROXY, "https_proxy": "http://other"}, PROXY),
        ({"HTTPS_PROXY": "proxy.example:3128"}, PROXY),
        ({"HTTP_PROXY": PROXY}, None),
        ({"ALL_PROXY": PROXY}, None),
    ],
)
def test_the_proxy_of_the_scheme_counts(environment: dict[str, str], expected: str | None) -> None:
    assert proxy_of(SERVER, environment) == expected


@pytest.mark.parametrize(
    ("server", "no_proxy", "is_direct"),
    [
        (SERVER, "example", True),
        (SERVER, ".prod.example", True),
        (SERVER, "*.prod.example", True),
        (SERVER, "a.test, API.prod.example", True),
        (SERVER, "api.prod.example:6443", True),
        (SERVER, "api.prod.example:443", False),
        (SERVER, ".api.prod.example", False),
        (SERVER, "od.example", False),
        (SERVER, "*", True),
        ("https://10.1.2.3", "10.0.0.0/8", True),
        ("https://10.1.2.3", "10.1.2.3:443", True),
        ("https://10.1.2.3", "10.1.2.4,192.168.0.0/16", False),
        ("https://[fd00::1]:6443", "fd00::/8", True),
        ("https://[fd00::1]:6443", "[fd00::1]:6443", True),
        ("https://127.0.0.1:6443", "", True),
        ("https://localhost:6443", "", True),
    ],
)
def test_an_exception_goes_direct(server: str, no_proxy: str, is_direct: bool) -> None:
    environment = {"HTTPS_PROXY": PROXY, "NO_PROXY": no_proxy}
    assert proxy_of(server, environment) == (None if is_direct else PROXY)


def test_a_proxy_of_another_kind_says_so_without_its_password() -> None:
    with pytest.raises(ValueError, match="'socks5'") as error:
        proxy_of(SERVER, {"HTTPS_PROXY": "socks5://me:secret@proxy.example:1080"})
    assert "secret" not in str(error.value)
