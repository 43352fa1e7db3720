"""`kubectl tjob breakeven`: when nodes that are bought or reserved cost less than rented ones."""
