"""Sign-in with email and password or at an OpenID Connect provider, and sign-out."""
