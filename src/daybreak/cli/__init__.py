"""The operator's command `daybreakd`: one thin module per group of verbs, heavy imports inside them."""
