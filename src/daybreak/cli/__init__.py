"""The operator's command `daybreakd`: one module per group of verbs, imported when one of them is used."""
