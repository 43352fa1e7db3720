"""Enums whose members are texts, as `enum.StrEnum` has them: Python 3.10 does not know that one."""

from enum import Enum


class TextEnum(str, Enum):
    """An enum of texts, which shows as its text wherever it is written."""

    __str__ = str.__str__
