"""The application of a new, empty service."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from starlette.applications import Starlette

from daybreak.settings import Settings
from tools.api_description import new_app, openapi_of


@dataclass(frozen=True)
class DescribedApp:
    """The application with its settings and its OpenAPI document."""

    settings: Settings
    app: Starlette
    document: dict[str, Any]

    def operations(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Yield path, method and operation."""
        for path, methods in self.document["paths"].items():
            for method, operation in methods.items():
                yield path, method, operation


@pytest.fixture(scope="session")
def described() -> Iterator[DescribedApp]:
    """Return an application whose settings differ from all defaults that texts contain."""
    variables = {
        "BASE_URL": "https://export.example.org/data",
        "OPERATOR_CONTACT": "<help@example.org>",
        "ACCESS__LINK_LIFETIME": "5m",
        "ACCESS__SESSION_LIFETIME": "3d",
        "SNAPSHOT__PUBLISH_AT": "05:30",
        "SNAPSHOT__FORMATS": "csv,json,parquet",
    }
    with new_app({f"DAYBREAK_{name}": value for name, value in variables.items()}) as (settings, app):
        yield DescribedApp(settings, app, openapi_of(settings, app))
