"""What commands share: how they begin and end, and what they print."""
