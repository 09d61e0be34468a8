"""Drawn objects of five parts, whose exact importance to a network is counted over all subsets of the parts."""
