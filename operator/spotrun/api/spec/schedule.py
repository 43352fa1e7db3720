"""The hours in which a job may run."""

from typing import Annotated

from pydantic import Field

from spotrun.api.field_types.text_values import Text
from spotrun.api.model import Model, Rule


class Days(Text):
    """A day of the week, or a range of days, which may continue past Sunday."""

    __slots__ = ()
    pattern = "(Mon|Tue|Wed|Thu|Fri|Sat|Sun)(-(Mon|Tue|Wed|Thu|Fri|Sat|Sun))?"
    max_length = 7
    hint = 'must be a day or a range of days, like "Sat" or "Mon-Fri"'

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the days; Monday is 0."""
        names = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
        first, _, last = self.partition("-")
        start = names.index(first)
        length = (names.index(last or first) - start) % 7 + 1
        return tuple((start + day) % 7 for day in range(length))


class ClockTime(Text):
    """A time of day."""

    __slots__ = ()
    pattern = "([01][0-9]|2[0-3]):[0-5][0-9]"
    max_length = 5
    hint = 'must be a time of day from "00:00" to "23:59"'

    @property
    def minutes(self) -> int:
        """Minutes since midnight."""
        hours, _, minutes = self.partition(":")
        return int(hours) * 60 + int(minutes)


class EndTime(ClockTime):
    """A time of day at which a window ends; 24:00 is the end of the day."""

    __slots__ = ()
    pattern = f"{ClockTime.pattern}|24:00"
    hint = 'must be a time of day from "00:00" to "24:00"'


class TimeZone(Text):
    """The name of a time zone."""

    __slots__ = ()
    pattern = "[A-Z][A-Za-z0-9_+-]*(/[A-Za-z0-9][A-Za-z0-9_+-]*){0,2}"
    max_length = 64
    hint = 'must be the name of a time zone, like "UTC" or "Europe/Berlin"'


class Window(Model):
    """A time window that recurs every week."""

    days: Annotated[tuple[Days, ...], Field(min_length=1, max_length=7)] | None = Field(
        None,
        description="Days on which the window begins, e.g. [Mon-Fri] or [Sat, Sun]. "
        "Default: every day.",
    )
    from_: ClockTime = Field(
        alias="from", description='The time of day at which it begins, e.g. "20:00".'
    )
    to: EndTime = Field(
        description='The time of day at which it ends, e.g. "06:00". If it is earlier than from, '
        'the window ends on the next day. "24:00" is the end of the day.'
    )
    time_zone: TimeZone = Field(
        TimeZone("UTC"),
        description="Default UTC. The zone in which from and to are read, e.g. Europe/Berlin.",
    )

    rules = (
        Rule(
            cel="self.from != self.to",
            message="from and to must differ: a whole day is from 00:00 to 24:00",
            holds=lambda w: w.from_ != w.to,
        ),
        # Only for the API server, whose time zones are up to date; getHours fails for unknown ones.
        Rule(
            cel="self.timeZone != 'Local' && (self.timeZone == 'UTC'"
            " || timestamp('2026-01-01T00:00:00Z').getHours(self.timeZone) >= 0)",
            message='timeZone must be one that the API server knows, like "Europe/Berlin"',
            holds=None,
        ),
    )


class Schedule(Model):
    """The hours in which the job may run."""

    windows: Annotated[tuple[Window, ...], Field(min_length=1, max_length=32)] = Field(
        description="The job runs only inside these windows. Outside them it saves a checkpoint "
        "and is suspended."
    )
