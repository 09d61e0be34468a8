"""Teach a Relation Network: what a question asks, what is in each cell, then to answer, first small, then whole.

Seven aids help it to learn on a processor of two cores, and none is left in the network that comes out of it:

- a linear layer on the question's code names the nodes of its program; after that the question encoder stays as it is;
- another one names what each phrase says, in a place of its own wherever its words and nodes stand;
- a linear layer on the last feature map names the object that each cell shows;
- a linear layer on g's sum over the pairs of one object with each tells in which of the program's sets the object is;
- a linear layer on g's value at one pair tells whether it shows the two objects that a question compares, and whether
  they agree;
- another one on the sum over all pairs names the two values, or numbers of objects, that a question compares;
- a step sums over a sample of the pairs of cells, weighted so that the sum is right in expectation.

The network first has narrow layers in g, which are quick to train, and is then widened and deepened to the paper's
size without a change of what it computes. ``stages.train`` is the whole of it.
"""
