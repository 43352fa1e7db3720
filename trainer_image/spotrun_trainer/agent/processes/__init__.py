"""Training processes as the agent has them: begun ahead, ended, and why they ended."""
