"""Server-rendered pages for account users and operators.

One package per feature, each with the same files: `handlers.py` answers requests, `view.py` builds
template variables, `queries.py` reads what they need, and the templates are next to them.
`routes.py` lists every URL.
"""
