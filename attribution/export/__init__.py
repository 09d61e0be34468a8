"""SavedModels that return explanations; see ``attribution.export.command``."""
