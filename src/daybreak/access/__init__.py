"""Who may do what: logins, second factors, sessions, API tokens, throttles, the directory."""
