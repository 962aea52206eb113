"""Sign-in and reauthentication at the OpenID Connect provider."""
