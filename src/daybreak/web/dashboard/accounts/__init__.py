"""Account switcher: the accounts that a user can open."""
