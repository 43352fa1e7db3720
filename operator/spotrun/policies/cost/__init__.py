"""The cost of a job so far, from the lifetimes of its workers and the prices of that time."""
