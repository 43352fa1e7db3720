"""`kubectl tjob bill`: what the jobs of a namespace have cost in a month, deleted ones too."""
