"""The nine resources once more, in plain Python and without any SQL: what the engine's files are held against."""
