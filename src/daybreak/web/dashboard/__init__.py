"""Server-rendered pages for account users and operators.

One package per feature, each with the same files: `handlers.py` handles requests, `view.py` builds
template variables, `queries.py` reads data, and the templates are in the same folder.
`routes.py` lists every URL.
"""
