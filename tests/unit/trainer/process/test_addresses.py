import pytest

from spotrun_trainer.process.addresses import split_address


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sync.spotrun:9443", ("sync.spotrun", 9443)),
        ("10.0.0.1:1", ("10.0.0.1", 1)),
        ("[fd00::1]:29400", ("fd00::1", 29400)),
    ],
)
def test_an_address_has_a_host_and_a_port(text: str, expected: tuple[str, int]) -> None:
    assert split_address(text) == expected


@pytest.mark.parametrize("text", ["", "host", ":1", "host:", "host:http"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not host:port"):
        split_address(text)
