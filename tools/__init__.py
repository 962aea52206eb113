"""Programs for those who work on Daybreak."""
