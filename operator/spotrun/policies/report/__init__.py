"""What status says to people: phase, cost, deadline; and how often it is written."""
