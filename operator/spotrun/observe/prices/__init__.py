"""What nodes cost: tables, and what clouds say."""
