"""Reset of a forgotten password with a link in a mail."""
