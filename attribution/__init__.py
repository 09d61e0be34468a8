"""Explanations of SavedModels: load a model, explain inputs, get maps."""
