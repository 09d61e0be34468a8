"""The embedded objects and scenes, which are drawn."""
