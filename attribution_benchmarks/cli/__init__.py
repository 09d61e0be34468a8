"""The command of a benchmark: its flags, its settings as flags, and the flags of Beam."""
