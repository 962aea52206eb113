"""Settings for tests, without a file."""

from collections.abc import Mapping

from daybreak.settings import Settings

DEFAULTS = Settings.model_validate({"source": {"location": "platform"}})


def configured(settings: Settings = DEFAULTS, **changes: object) -> Settings:
    """Return settings with other values: `base_url="..."`, or `snapshot={"keep": 1}` within a section.

    The values are not validated, so tests may use values that the configuration file must not contain.
    """
    update = {
        name: getattr(settings, name).model_copy(update=dict(value)) if isinstance(value, Mapping) else value
        for name, value in changes.items()
    }
    return settings.model_copy(update=update)
