"""What a job costs: prices, shares, and the ledger that adds them up, in decimals."""
