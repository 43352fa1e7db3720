"""`kubectl tjob doctor`: what is wrong with an installation or a job, and how to fix it."""
