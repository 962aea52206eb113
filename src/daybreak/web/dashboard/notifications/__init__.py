"""Settings > Notifications: the events that the user receives by mail."""
