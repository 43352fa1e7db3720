"""What the money bought: useful steps, steps done twice, stalls and waste."""
