"""The settings of webhooks and mail."""

from pydantic import Field, SecretStr, ValidationInfo, field_validator

from daybreak.domain.email_address import is_email_address
from daybreak.settings.sections import Section
from daybreak.settings.text_forms import InvalidValue
from daybreak.settings.types import HostNames, MailUrl, Networks


class EventsSettings(Section):
    """Webhooks of accounts."""

    webhooks: bool = Field(
        default=True, description="Let owners and admins register webhooks, and deliver events to them."
    )
    allowed_networks: Networks = Field(
        default=(),
        description="Private networks that webhooks may be sent to, such as a receiver on this machine "
        '(`["127.0.0.0/8"]`, which also allows plain http to it). Other private addresses are refused.',
    )
    allowed_hosts: HostNames = Field(
        default=(),
        description="Hosts that webhooks may be sent to, such as `hooks.example.org`, or `*.example.net` for all names "
        "below a domain; empty: any host with an allowed address.",
    )


class MailSettings(Section):
    """Mail server for notifications and password resets."""

    url: MailUrl = Field(
        default="",
        description="`smtps://host:465` (TLS) or `smtp://host:587` (STARTTLS, required unless the host is this "
        "machine); empty: no mail.",
    )
    sender: str = Field(default="", description="Address that mails come from, such as `exports@example.org`.")
    username: str = Field(default="", description="User name at the mail server; empty: no authentication.")
    password: SecretStr = Field(
        default=SecretStr(""), description="Password at the mail server. Use the environment variable."
    )

    @field_validator("sender")
    @classmethod
    def _require_sender(cls, sender: str, info: ValidationInfo) -> str:
        if info.data.get("url") and not is_email_address(sender):
            raise InvalidValue('Use the address that mails come from, such as "exports@example.org".')
        return sender

    @field_validator("password")
    @classmethod
    def _require_both(cls, password: SecretStr, info: ValidationInfo) -> SecretStr:
        if bool(password.get_secret_value()) != bool(info.data.get("username")):
            raise InvalidValue("Set mail.username and mail.password, or neither.")
        return password

    @property
    def enabled(self) -> bool:
        """Whether mail is configured."""
        return bool(self.url)
