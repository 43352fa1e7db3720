"""Text on terminals: words for amounts and times, tables that fit, colours if they are shown."""
