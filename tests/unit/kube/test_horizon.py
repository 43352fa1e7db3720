from spotrun.kube.horizon import Horizon


def test_a_key_waits_for_all_that_was_written_for_it() -> None:
    seen = {"pods": 5, "jobs": 5}
    horizon: Horizon[str, str] = Horizon(seen.__getitem__)
    assert horizon.caught_up("a")
    horizon.wrote("a", "pods", 9)
    horizon.wrote("a", "pods", 7)
    horizon.wrote("a", "jobs", 6)
    assert horizon.caught_up("b")
    seen["pods"] = 8
    assert not horizon.caught_up("a")
    seen["pods"] = 9
    assert not horizon.caught_up("a")
    seen["jobs"] = 6
    assert horizon.caught_up("a")
    seen["pods"] = 0
    assert horizon.caught_up("a"), "what was reached once is not asked for again"


def test_what_is_forgotten_is_not_waited_for() -> None:
    horizon: Horizon[str, str] = Horizon(lambda _: 0)
    horizon.wrote("a", "pods", 9)
    horizon.forget("a")
    assert horizon.caught_up("a")
