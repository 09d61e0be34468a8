"""Scenes, images, masks and questions in the style of CLEVR."""
