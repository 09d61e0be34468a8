"""From tables to one matrix, verdicts, and a page to read."""
