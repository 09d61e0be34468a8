"""BIM: ten objects pasted on ten scenes, so that their relative importance to two models is known."""
