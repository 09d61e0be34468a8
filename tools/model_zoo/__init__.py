"""A zoo of networks as people export them, small, with random weights: what explains them must explain these.

``families.FAMILIES`` lists them all; ``measure`` explains one by every method and compares with oracles; ``page``
writes ``docs/networks.md``.
"""
