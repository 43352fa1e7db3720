"""Replays of recorded markets: the operator's own decisions, and its peers', on a virtual clock."""
