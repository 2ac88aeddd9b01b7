"""The page about one run: a module per section."""
