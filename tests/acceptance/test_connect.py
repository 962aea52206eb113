"""The page Connect: the steps of each tool that can run here, as a person does them."""

import base64
import html
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.acceptance.browser import signed_in
from tests.acceptance.conftest import new_installation
from tests.acceptance.installation import MAYA, NORTH, VIC
from tests.acceptance.service import PATIENCE_SECONDS, Service, serving
from tests.acceptance.test_sharing import SETTINGS
from tests.parts.variants import one_of
from tests.parts.waiting import wait_until


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    installation = new_installation(tmp_path_factory.mktemp("connect"), large_rows=5, parquet=True)
    with serving(installation, workers=1, settings=SETTINGS) as found:
        yield found


def texts_of(page: str) -> list[str]:
    """Return the texts to copy."""
    found = re.findall(r'<pre id="step-\d+" tabindex="0">(.*?)</pre>', page, re.DOTALL)
    return [html.unescape(text) for text in found]


@pytest.mark.release
@pytest.mark.parametrize("tool", one_of("duckdb", "pandas", "polars", "curl", "dlt"))
def test_recipe_of_the_page_connect_runs(service: Service, tmp_path: Path, tool: str) -> None:
    """A person chooses a tool, creates its token, runs the steps, and sees that the request arrived."""
    with signed_in(service, MAYA) as browser:
        page = browser.get(f"/dashboard/{NORTH}/connect?tool={tool}").text
        assert page.count("run by a test") == 1
        assert "not run by a test" not in page
        fields = dict(
            re.findall(
                r'<input type="hidden" name="(\w+)" value="([^"]*)">', page.partition('settings/tokens/new">')[2]
            )
        )
        created = browser.post(f"/dashboard/{NORTH}/settings/tokens/new", fields).text
        texts = texts_of(created)
        assert texts == texts_of(page)
        (secret,) = re.findall(r'<pre id="token-value" tabindex="0">(.*?)</pre>', created)
        (profile,) = re.findall(r'download="daybreak.share" href="data:application/json;base64,([^"]*)"', created)
        (tmp_path / "daybreak.share").write_bytes(base64.b64decode(profile))
        script = [f"python - <<'END'\n{text}\nEND" if text.startswith("import ") else text for text in texts]
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "DAYBREAK_TOKEN": secret,
            "RUNTIME__DLTHUB_TELEMETRY": "false",
            "HOME": str(tmp_path),
            # For root, dlt does not use the home directory.
            "DLT_DATA_DIR": str(tmp_path / "dlt"),
        }
        steps = [step for step in script if not step.startswith("read ")]
        done = subprocess.run(
            ["bash", "-ec", "\n".join(steps)], cwd=tmp_path, env=environment, capture_output=True, text=True,
            check=False, timeout=PATIENCE_SECONDS,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        (first_use,) = set(re.findall(r'data-poll="([^"]*/first-use)"', created))
        wait_until(lambda: "First request received." in browser.get(first_use).text, PATIENCE_SECONDS)
    content = json.loads((tmp_path / "daybreak.share").read_text())
    assert content["endpoint"] == f"{service.base_url}/sharing/v1"
    remaining = datetime.fromisoformat(content["expirationTime"]) - datetime.now(UTC)
    assert timedelta(days=89) < remaining <= timedelta(days=90)


@pytest.mark.release
def test_page_connect_names_what_is_missing(service: Service) -> None:
    with signed_in(service, MAYA) as browser:
        for tool, setting in (("aws", "attach.s3"), ("trino", "attach.iceberg")):
            page = browser.get(f"/dashboard/{NORTH}/connect?tool={tool}").text
            assert f"Ask your operator to turn on the setting {setting}." in page
            assert "Create token" not in page
        for tool in ("tableau", "spark"):
            assert "not run by a test" in browser.get(f"/dashboard/{NORTH}/connect?tool={tool}").text
    with signed_in(service, VIC) as other:
        assert "Create token" not in other.get(f"/dashboard/{NORTH}/connect?tool=curl").text
