"""From a path to the graph that is explained.

1. ``paths`` finds the directory of a SavedModel; ``keras_files`` writes one of a Keras file or of a live network.
2. ``file`` reads ``saved_model.pb`` once, drops what the signature does not use (``_used_parts``), checks the rest
   (``op_allowlist``) and loads exactly that. It finds the function that is explained, its inputs and its output.
3. ``freeze`` makes one graph of it, without variables, calls and control edges, and without branches that are not taken
   (``branches``), or refuses it because its scores are random.
4. ``scores`` knows from the graph's end what its scores are.

The result is a ``freeze.FrozenGraph``, of which ``attribution.model`` answers queries.
"""
