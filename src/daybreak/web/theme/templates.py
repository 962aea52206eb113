"""Environments of templates."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

_WEB = Path(__file__).parent.parent


def templates_in(folder: Path) -> Environment:
    """Return the templates in a folder, and the shared ones, whose names begin with `theme/`."""
    return Environment(
        loader=FileSystemLoader([folder, _WEB]),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
