"""Whether passwords are accepted."""

from __future__ import annotations

from daybreak.domain.errors import Forbidden
from daybreak.settings import Settings


def require_password_login(settings: Settings) -> None:
    """Raise Forbidden(password_login_disabled) if users sign in with single sign-on only."""
    if not settings.oidc.password_login:
        raise Forbidden(
            f"Password login is disabled. Open {settings.base_url}/dashboard to sign in with {settings.oidc.name}, "
            "and use an API token in scripts.",
            code="password_login_disabled",
        )
