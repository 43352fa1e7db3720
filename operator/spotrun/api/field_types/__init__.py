"""Types of fields: numbers, amounts, times and lists that manifests carry as text."""
