"""Server-rendered pages for account users and operators.

One package per feature, with its templates: `handlers.py` handles requests. In large features `view.py` builds template
variables, and `queries.py` reads data. `routes.py` lists every URL.
"""
