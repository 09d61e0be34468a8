"""Reading and rewriting of frozen graphs."""
