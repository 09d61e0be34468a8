"""Choose a method for a model and inputs without ground truth: scores and a verdict."""
