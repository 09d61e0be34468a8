"""Rules of each kind of operation, which ``attribution.lrp.engine`` applies on its walk through the graph."""
