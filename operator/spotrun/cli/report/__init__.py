"""`kubectl tjob report`: a job in one file that can be sent to somebody."""
