"""CLEVR-XAI, a benchmark with pixel-exact ground truth (Arras, Osman and Samek, Information Fusion 81, 2022)."""
