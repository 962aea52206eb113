"""Pure ASGI middleware, one job per module. `web.app` defines the order."""
