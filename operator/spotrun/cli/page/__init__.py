"""`kubectl tjob ui`: a page on this machine that shows jobs and pools as they change."""
