"""The cost of a job: prices, shares, and the ledger that adds them up, in decimals."""
