"""The values of the next trial of a search: how they are found, and what waits for them."""
