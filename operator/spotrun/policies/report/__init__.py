"""The part of status for people: phase, cost and deadline, and how often it is written."""
