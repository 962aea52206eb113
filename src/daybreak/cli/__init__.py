"""The operator's command `daybreakd`: one module per group of verbs, with expensive imports inside the functions."""
