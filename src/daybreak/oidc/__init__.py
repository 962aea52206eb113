"""Client of an OpenID Connect provider: discovery, keys, and the requests of a sign-in."""
