"""`kubectl tjob doctor`: what of an installation or a job is wrong, and how to mend it."""
