"""Steps of scripts that do not train through `Run`: counted, timed and reported to the agent."""
