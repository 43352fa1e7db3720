"""The agent in every worker: it reports to the operator and watches its neighbours."""
