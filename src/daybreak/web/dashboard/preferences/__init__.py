"""Settings > Notifications and Settings > Display: what a user receives by mail, and how pages show values."""
