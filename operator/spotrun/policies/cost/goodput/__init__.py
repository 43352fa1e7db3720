"""The return on the money: useful steps, steps done twice, stalls and waste."""
