"""The names of a search's parameters."""

from spotrun.api.field_types.text_values import Text


class ParameterName(Text):
    """The name of a parameter, as scripts write it."""

    __slots__ = ()
    pattern = "[A-Za-z_][A-Za-z0-9_]{0,62}"
    max_length = 63
    hint = 'must be letters, digits and _, beginning with a letter, at most 63, like "lr"'
