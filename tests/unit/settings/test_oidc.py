"""The settings of single sign-on."""

from pathlib import Path

import pytest

from daybreak.settings import SettingsFault, load_settings

PROVIDER = {
    "DAYBREAK_SOURCE__LOCATION": "platform",
    "DAYBREAK_OIDC__ISSUER": "https://login.example.org/",
    "DAYBREAK_OIDC__CLIENT_ID": "daybreak",
    "DAYBREAK_OIDC__CLIENT_SECRET": "a secret",
}


def test_provider_is_configured_by_variables() -> None:
    settings = load_settings(None, PROVIDER).oidc
    assert settings.enabled
    assert settings.issuer == "https://login.example.org/"
    assert "a secret" not in repr(settings)
    assert not load_settings(None, {"DAYBREAK_SOURCE__LOCATION": "platform"}).oidc.enabled


@pytest.mark.parametrize(
    ("changes", "key", "advice"),
    [
        ({"ISSUER": "http://login.example.org"}, "oidc.issuer", "Use https: over plain HTTP"),
        ({"ISSUER": "https://user@login.example.org"}, "oidc.issuer", "Remove the user, query and fragment."),
        ({"ISSUER": "login.example.org"}, "oidc.issuer", "the https URL of the provider"),
        ({"CLIENT_ID": ""}, "oidc.client_id", "Set oidc.client_id to the client id"),
        ({"CLIENT_SECRET": ""}, "oidc.client_secret_file", "is missing. Set oidc.client_secret_file"),
        ({"CLIENT_SECRET_FILE": "secret"}, "oidc.client_secret_file", "Set either"),
        ({"ISSUER": ""}, "oidc.client_id", "Set oidc.issuer too"),
        ({"SCOPES": "email,profile"}, "oidc.scopes", 'Add "openid"'),
        ({"MATCH": "name"}, "oidc.match", 'Use "email" or "subject".'),
    ],
)
def test_fault_states_the_setting_and_the_fix(changes: dict[str, str], key: str, advice: str) -> None:
    variables = PROVIDER | {f"DAYBREAK_OIDC__{name}": value for name, value in changes.items()}
    with pytest.raises(SettingsFault) as refused:
        load_settings(None, variables)
    assert [(fault.key, advice in fault.detail) for fault in refused.value.faults] == [(key, True)]
    assert "a secret" not in str(refused.value)


def test_passwords_stay_on_without_a_provider() -> None:
    with pytest.raises(SettingsFault, match=r"oidc.password_login: .* Set oidc.issuer first"):
        load_settings(None, {"DAYBREAK_SOURCE__LOCATION": "x", "DAYBREAK_OIDC__PASSWORD_LOGIN": "false"})


def test_secret_file_is_resolved_against_the_configuration_file(tmp_path: Path) -> None:
    file = tmp_path / "daybreak.toml"
    file.write_text(
        'source.location = "platform"\n[oidc]\nissuer = "https://login.example.org"\nclient_id = "daybreak"\n'
        'client_secret_file = "secret"\n'
    )
    assert load_settings(file, {}).oidc.client_secret_file == tmp_path / "secret"
