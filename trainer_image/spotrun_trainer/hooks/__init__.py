"""Steps of scripts that do not train through `Run`: counted, timed and told to the agent."""
