"""Sign-in with email and password, and sign-out."""
