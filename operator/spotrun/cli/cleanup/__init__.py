"""`spotrun cleanup`: release the pods that wait for the operator."""
