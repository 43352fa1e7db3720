"""The agent in every worker: it speaks to the operator and to its neighbours."""
