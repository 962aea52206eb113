"""The configuration: `daybreak.toml` and `DAYBREAK_...` variables as one frozen object, every fault listed at once."""

from daybreak.settings.load import ENVIRONMENT_PREFIX, load_settings, setting_rows
from daybreak.settings.sections import Fault, Settings, SettingsFault

__all__ = ["ENVIRONMENT_PREFIX", "Fault", "Settings", "SettingsFault", "load_settings", "setting_rows"]
