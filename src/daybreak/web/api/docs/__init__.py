"""The documentation page, rendered from the OpenAPI document."""
