"""What each kind of operation does with relevance; ``attribution.relevance`` walks the graph and asks these."""
