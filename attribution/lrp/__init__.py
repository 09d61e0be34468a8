"""Layer-wise relevance propagation on a graph."""
