"""Examples of the token page for other settings. Browser tests run the examples."""

import subprocess

import pytest

from daybreak.web.api.examples import sample_format
from daybreak.web.dashboard.tokens.recipes import examples_of
from tests.configured import configured

ACCOUNT = "7d909222-adf5-4547-93e0-e8f60c50f980"


def texts(base_url: str = "https://export.example.org/data", format_name: str = "csv") -> dict[str, str]:
    settings = configured(base_url=base_url, snapshot={"formats": (format_name,)})
    examples = examples_of(settings, ACCOUNT)
    return {key: "\n".join(step.text for step in example.steps) for key, example in examples.items()}


def test_every_example_uses_the_public_url() -> None:
    for key, text in texts().items():
        assert "https://export.example.org/data" in text, key
        assert "DAYBREAK_TOKEN" in text, key


@pytest.mark.parametrize("key", ["curl", "sync"])
def test_commands_are_valid_in_bash(key: str) -> None:
    subprocess.run(["bash", "-n"], input=texts()[key], text=True, check=True, capture_output=True)


def test_examples_use_csv_if_it_is_published() -> None:
    assert sample_format(("parquet", "csv")).name == "csv"
    assert sample_format(("parquet", "json")).name == "parquet"
    assert "campaigns.parquet" in texts(format_name="parquet")["python"]
    assert "read.csv" in texts()["r"]
    assert "read.csv" not in texts(format_name="parquet")["r"]


@pytest.mark.parametrize(
    ("base_url", "needed"),
    [
        ("https://export.example.org", False),
        ("http://localhost:8400", False),
        ("http://127.0.0.1:8400", False),
        ("http://[::1]:8400", False),
        ("http://10.0.0.5:8400", True),
        ("http://export.internal", True),
    ],
)
def test_client_may_use_plain_http_where_the_service_does(base_url: str, needed: bool) -> None:
    assert ("export DAYBREAK_PLAIN_HTTP=1" in texts(base_url)["sync"]) == needed
