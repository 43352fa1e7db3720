"""The only writer: what was decided becomes objects, one conditional write at a time."""
