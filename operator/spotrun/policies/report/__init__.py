"""The part of status for people: phase, cost, deadline; and how often it is written."""
