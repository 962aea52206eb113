"""The configuration: `daybreak.toml` and `DAYBREAK_...` variables as one frozen tree of models."""

from daybreak.settings.integrations import (
    AttachSettings,
    EventsSettings,
    MailSettings,
    MetricsSettings,
    OidcSettings,
    SharingSettings,
    SourceSettings,
)
from daybreak.settings.load import Fault, SettingsFault, load_settings
from daybreak.settings.sections import (
    AccessSettings,
    AuditSettings,
    DirectorySettings,
    FilesSettings,
    GuardSettings,
    KeysSettings,
    SnapshotSettings,
    StateSettings,
)
from daybreak.settings.text_forms import Rate
from daybreak.settings.tree import Settings

__all__ = [
    "AccessSettings",
    "AttachSettings",
    "AuditSettings",
    "DirectorySettings",
    "EventsSettings",
    "Fault",
    "FilesSettings",
    "GuardSettings",
    "KeysSettings",
    "MailSettings",
    "MetricsSettings",
    "OidcSettings",
    "Rate",
    "Settings",
    "SettingsFault",
    "SharingSettings",
    "SnapshotSettings",
    "SourceSettings",
    "StateSettings",
    "load_settings",
]
