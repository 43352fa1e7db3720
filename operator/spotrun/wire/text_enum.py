"""Enums whose members are texts, like `enum.StrEnum`, which Python 3.10 does not have."""

from enum import Enum


class TextEnum(str, Enum):
    """An enum of texts; `str` of a member is its text."""

    __str__ = str.__str__
