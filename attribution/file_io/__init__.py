"""Files that are written completely or not at all, and guarded reading of untrusted files."""
