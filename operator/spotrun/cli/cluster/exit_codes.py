"""The exit codes of the commands that ask a cluster."""

DONE, REFUSED, WRONGLY_ASKED, NO_ANSWER, NOT_THERE = range(5)
