"""The documentation pages: the API, rendered from the OpenAPI document, the files and their columns, and help."""
