"""The use of the money: useful steps, steps done twice, stalls and waste."""
