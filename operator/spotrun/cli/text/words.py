"""Amounts, times and counts for people to read; amounts come as text, as the API has them."""

from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation

UNKNOWN = "-"
_STEPS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def amount(text: str | None) -> Decimal:
    """Read an amount; an absent one is zero."""
    try:
        return Decimal(text or 0)
    except InvalidOperation:
        return Decimal(0)


def plain_usd(text: str | Decimal | None) -> str:
    """Write dollars for a column with a $ in its head: to the cent, below a cent to 2 digits."""
    if text is None:
        return UNKNOWN
    value = amount(text) if isinstance(text, str) else text
    size = abs(value)
    if size >= Decimal("0.01") or not size:
        return f"{value:,.2f}"
    return f"{value:.2g}"


def usd(text: str | Decimal | None) -> str:
    """Write dollars."""
    plain = plain_usd(text)
    return plain if plain == UNKNOWN else f"-${plain[1:]}" if plain.startswith("-") else f"${plain}"


def count(number: int | None) -> str:
    """Write a whole number."""
    return UNKNOWN if number is None else f"{number:,}"


def things(number: int, singular: str, plural: str = "") -> str:
    """Write a number of things, such as `1 worker`."""
    return f"{number:,} {singular if number == 1 else plural or f'{singular}s'}"


def moment(text: str | None) -> datetime | None:
    """Read a time of the API; None where there is none."""
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def seconds_since(text: str | None, now: datetime) -> float | None:
    """Return the time since a moment of the API; below zero for one in the future."""
    then = moment(text)
    return None if then is None else (now - then).total_seconds()


def span(seconds: float | None) -> str:
    """Write a length of time by its two largest units: `38s`, `3h12m`, `5d`."""
    if seconds is None:
        return UNKNOWN
    left = int(abs(seconds))
    for index, (size, unit) in enumerate(_STEPS):
        if left >= size:
            smaller = _STEPS[index + 1] if index + 1 < len(_STEPS) and left < 10 * size else None
            rest = left % size // smaller[0] if smaller else 0
            return f"{left // size}{unit}{f'{rest}{smaller[1]}' if smaller and rest else ''}"
    return "0s"


def age(text: str | None, now: datetime) -> str:
    """Write how long ago a moment was."""
    return span(seconds_since(text, now))


def percent_of(part: Decimal, whole: Decimal) -> str:
    """Write a share of a whole."""
    return f"{part / whole:.0%}" if whole else UNKNOWN


def sentence(text: str) -> str:
    """Begin with a capital and end with a full stop."""
    text = text.strip()
    if not text:
        return ""
    text = text[0].upper() + text[1:]
    return text if text[-1] in ".!?" else f"{text}."
