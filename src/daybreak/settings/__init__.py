"""The configuration: `daybreak.toml` and `DAYBREAK_...` variables as one frozen tree of models."""

from daybreak.settings.integrations import AttachSettings, MailSettings, OidcSettings
from daybreak.settings.load import SettingsFault, load_settings
from daybreak.settings.sections import AccessSettings, DirectorySettings, FilesSettings, GuardSettings, SnapshotSettings
from daybreak.settings.text_forms import Rate
from daybreak.settings.tree import Settings

__all__ = [
    "AccessSettings",
    "AttachSettings",
    "DirectorySettings",
    "FilesSettings",
    "GuardSettings",
    "MailSettings",
    "OidcSettings",
    "Rate",
    "Settings",
    "SettingsFault",
    "SnapshotSettings",
    "load_settings",
]
