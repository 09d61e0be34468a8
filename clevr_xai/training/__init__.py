"""Training of CLEVR-XAI's Relation Network; ``stages.train`` runs all of it."""
