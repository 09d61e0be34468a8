"""What each kind of operation does with relevance; ``attribution.lrp.engine`` walks the graph and asks these."""
