"""Text on terminals: words for amounts and times, tables that fit, colours where they are seen."""
