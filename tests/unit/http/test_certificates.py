import datetime
import ssl
from datetime import timedelta

import pytest

from spotrun.http.certificates import (
    AUTHORITY_LIFE,
    SERVING_LIFE,
    Certificates,
    Pair,
    Plan,
    Term,
    describe,
    make_authority,
    plan_rotation,
    sign_serving,
    term,
)
from spotrun.http.tls import server_context, show

NOW = datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC)


def authority(name: str, days: float) -> Term:
    return Term(name, name, NOW + timedelta(days=days))


def serving(issuer: str, days: float = 80) -> Term:
    return Term("sync.spotrun.dev", issuer, NOW + timedelta(days=days))


OLD, YOUNG = authority("old", 300), authority("young", 1000)

PLANS: dict[str, tuple[Certificates, Plan]] = {
    "nothing there": (Certificates(), Plan(make_authority=True, sign_by=0)),
    "all well": (Certificates((YOUNG,), serving("young")), Plan()),
    "serving certificate missing": (Certificates((YOUNG,), None), Plan(sign_by=0)),
    "serving certificate ends soon": (
        Certificates((YOUNG,), serving("young", days=29)),
        Plan(sign_by=0),
    ),
    "serving certificate has ended": (
        Certificates((YOUNG,), serving("young", days=-1)),
        Plan(sign_by=0),
    ),
    "signed by somebody else": (Certificates((YOUNG,), serving("other")), Plan(sign_by=0)),
    "last year of the only authority: the next one is told to new pods": (
        Certificates((OLD,), serving("old")),
        Plan(make_authority=True),
    ),
    "both known: the old one still signs": (Certificates((OLD, YOUNG), serving("old")), Plan()),
    "both known, renewal: by the old one, for old pods": (
        Certificates((OLD, YOUNG), serving("old", days=10)),
        Plan(sign_by=0),
    ),
    "last month of the old one: the next one signs": (
        Certificates((authority("old", 30), YOUNG), serving("old", days=30)),
        Plan(sign_by=1),
    ),
    "handed over": (Certificates((authority("old", 20), YOUNG), serving("young")), Plan()),
    "the old one has ended": (
        Certificates((authority("old", 0), YOUNG), serving("young")),
        Plan(drop=("old",)),
    ),
    "away for years: both have ended": (
        Certificates((authority("old", -400), authority("young", -1)), serving("old", -500)),
        Plan(drop=("old", "young"), make_authority=True, sign_by=0),
    ),
    "away for a year: the old one has ended, and it signed": (
        Certificates((authority("old", -100), authority("young", 600)), serving("old", -90)),
        Plan(drop=("old",), sign_by=0),
    ),
    "away until the only one is in its last month: straight to the next": (
        Certificates((authority("old", 10),), serving("old", days=5)),
        Plan(make_authority=True, sign_by=1),
    ),
}


@pytest.mark.parametrize(("there", "plan"), PLANS.values(), ids=PLANS)
def test_plans(there: Certificates, plan: Plan) -> None:
    assert plan_rotation(NOW, there) == plan


def carry_out(
    plan: Plan, authorities: list[Pair], now: datetime.datetime, served: Pair | None
) -> tuple[list[Pair], Pair | None]:
    kept = [pair for pair in authorities if term(pair.certificate).name not in plan.drop]
    if plan.make_authority:
        kept.append(make_authority(now))
    if plan.sign_by is not None:
        served = sign_serving(kept[plan.sign_by], now)
    return kept, served


def test_ten_years_in_which_every_pod_younger_than_335_days_trusts_what_it_is_shown() -> None:
    authorities: list[Pair] = []
    served: Pair | None = None
    trusted: list[tuple[datetime.datetime, set[str]]] = []  # what young pods learned at their birth

    for day in range(0, 3650, 5):
        now = NOW + timedelta(days=day)
        plan = plan_rotation(now, describe(authorities, served))
        authorities, served = carry_out(plan, authorities, now, served)

        assert plan_rotation(now, describe(authorities, served)).is_empty
        assert len(authorities) <= 2
        assert served is not None
        shown = term(served.certificate)
        assert shown.ends > now
        trusted.append((now, {term(pair.certificate).name for pair in authorities}))
        trusted = [(born, names) for born, names in trusted if now - born <= timedelta(days=330)]
        assert all(shown.issuer in names for _, names in trusted)
        valid = {t.name for t in describe(authorities, served).authorities if t.ends > now}
        assert shown.issuer in valid


def test_what_is_made_says_who_made_it_and_how_long_it_is_good() -> None:
    made = make_authority(NOW)
    signed = sign_serving(made, NOW)

    assert term(made.certificate).ends == NOW + AUTHORITY_LIFE
    assert term(signed.certificate).name == "sync.spotrun.dev"
    assert term(signed.certificate).issuer == term(made.certificate).name
    assert term(signed.certificate).ends == NOW + SERVING_LIFE
    assert "PRIVATE" not in repr(made)


def test_nothing_is_signed_beyond_its_signers_end() -> None:
    made = make_authority(NOW)
    late = NOW + AUTHORITY_LIFE - timedelta(days=3)

    assert term(sign_serving(made, late).certificate).ends == NOW + AUTHORITY_LIFE


def test_two_authorities_have_two_names() -> None:
    names = {term(make_authority(NOW).certificate).name for _ in range(5)}

    assert len(names) == 5


def test_a_pair_that_does_not_fit_is_refused() -> None:
    one, other = make_authority(NOW), make_authority(NOW)

    with pytest.raises(ValueError, match="cannot be used"):
        show(server_context(), Pair(one.certificate, other.key))


def test_old_tls_is_not_spoken() -> None:
    assert server_context().minimum_version is ssl.TLSVersion.TLSv1_2
