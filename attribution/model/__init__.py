"""Loading of SavedModels: their graphs, scores and gradients."""
