"""Replays of recorded markets: decisions of the operator and of its peers, on a virtual clock."""
