"""The API description of a new, empty service, for the reference pages and for tests."""

import asyncio
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import msgspec
from starlette.applications import Starlette

from daybreak.domain.clock import now_utc
from daybreak.settings import Settings, load_settings


@contextmanager
def new_app(variables: Mapping[str, str] | None = None) -> Iterator[tuple[Settings, Starlette]]:
    """Build the application in a temporary folder, with settings from `DAYBREAK_` variables."""
    from daybreak import bootstrap
    from daybreak.credentials import keyring
    from daybreak.state.migrate import migrate
    from daybreak.web.app import create_app

    with tempfile.TemporaryDirectory(prefix="daybreak-api-") as folder:
        file = Path(folder) / "daybreak.toml"
        file.write_text('[source]\nlocation = "platform"\n', "utf-8")
        settings = load_settings(file, variables or {})
        keyring.create(settings.keys.file, now_utc(), os.urandom)
        migrate(settings.state.url.get_secret_value())
        wired = bootstrap.build(settings)
        try:
            yield settings, create_app(wired.services, nullcontext)
        finally:
            asyncio.run(wired.aclose())


def openapi_of(settings: Settings, app: Starlette) -> dict[str, Any]:
    """Generate the OpenAPI document from the routes of the application, as clients receive it."""
    from daybreak.web.api.openapi import openapi_document
    from daybreak.web.api.operation import ApiRoute

    document = openapi_document(settings, [route for route in app.routes if isinstance(route, ApiRoute)])
    decoded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(document))
    return decoded
