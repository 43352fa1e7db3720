"""`kubectl tjob plan`: which machines hold a model, and what they cost."""
