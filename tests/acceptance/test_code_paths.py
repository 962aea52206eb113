"""The documentation page about paths through the code names the modules that run."""

import ast
import asyncio
import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from daybreak import bootstrap
from daybreak.demo.plan import PlatformSizes
from daybreak.demo.platform import make_platform
from daybreak.domain.snapshot import SnapshotState
from daybreak.filestore.local_disk import LocalDisk
from daybreak.filestore.packs import NO_PACKS
from daybreak.settings import Settings, load_settings
from daybreak.snapshots.builder import Builder
from daybreak.state.migrate import migrate
from daybreak.web.app import create_app, middleware
from tests.acceptance.installation import MAYA, NORTH, PASSWORD, Installation
from tests.parts.call_trace import Call, CallTrace
from tests.unit.web.asgi import Answer, acall, http_scope

LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def sections(project_folder: Path) -> dict[str, str]:
    """Text of the page by heading."""
    text = (project_folder / "docs/explanation/through-the-code.md").read_text("utf-8")
    return {part.partition("\n")[0]: part for part in re.split(r"^##+ ", text, flags=re.MULTILINE)[1:]}


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Call]]:
    """Calls during a login, a request for a file, and the first use of its link."""
    folder = tmp_path_factory.mktemp("requests") / "installation"
    # The page follows a file that is not in a pack.
    files = LocalDisk(folder / "files", NO_PACKS)
    installation = Installation(folder, f"sqlite:///{folder}/state.db", bucket=files)
    installation.create()
    trace = CallTrace()
    with trace.active():
        return asyncio.run(_send_requests(installation, settings_in(installation.folder), trace))


def settings_in(folder: Path, text: str = 'source.location = "platform"') -> Settings:
    file = folder / "daybreak.toml"
    file.write_text(f"{text}\n")
    return load_settings(file, {})


async def _send_requests(installation: Installation, settings: Settings, trace: CallTrace) -> dict[str, list[Call]]:
    secret, _ = installation.create_token(MAYA, NORTH)
    wired = bootstrap.build(settings)

    @asynccontextmanager
    async def no_background() -> AsyncIterator[None]:
        yield

    app = create_app(wired.services, no_background)

    async def send(path: str, body: object = None, **headers: str) -> tuple[Answer, list[Call]]:
        parts, content = urlsplit(path), json.dumps(body).encode() if body else b""
        scope = http_scope(
            parts.path, [("host", "127.0.0.1:8400"), *headers.items()], query_string=parts.query.encode()
        )
        if content:
            scope["method"] = "POST"
            scope["headers"] += [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(content))]
        trace.take()
        answer = await acall(app, scope, (content,))
        return answer, trace.take()

    try:
        # The first request of an endpoint evaluates the annotations of its body.
        for _ in range(2):
            login, login_calls = await send("/download/v2/auth/login", {"email": MAYA, "password": PASSWORD})
        file = f"/download/v1/files/{NORTH}/campaigns.csv.gz"
        request, request_calls = await send(file, authorization=f"Bearer {secret}")
        link, link_calls = await send(request.headers["location"])
    finally:
        await wired.aclose()
    assert (login.status, request.status, link.status) == (200, 302, 200)
    return {"A login": login_calls, "The request": request_calls, "The link": link_calls}


def test_named_modules_and_functions_exist(sections: dict[str, str], project_folder: Path) -> None:
    named = [step for text in sections.values() for step in steps(text)]
    assert len(named) > 50
    missing = [step for step in named if step.function not in names_in(module_file(project_folder / "src", step))]
    assert missing == []


@pytest.mark.parametrize("path", ["A login", "The request", "The link"])
def test_request_runs_the_named_modules_in_order(
    path: str, sections: dict[str, str], calls: dict[str, list[Call]]
) -> None:
    left_out = tuple(re.findall(r"^\| `([\w/.]+)` \|", sections["What the lists leave out"], re.MULTILINE))
    named = steps(sections[path])
    assert {call.module for call in named} == {
        call.module for call in calls[path] if not call.module.startswith(left_out)
    }
    assert_order(named, calls[path])


def test_every_request_passes_the_named_middleware(sections: dict[str, str], tmp_path: Path) -> None:
    text = (
        'source.location = "platform"\nbase_url = "https://a.example/base"\nrequire_https = true\n'
        'metrics.listen = "127.0.0.1:9400"\ntelemetry.url = "http://127.0.0.1:9"'
    )
    for configured, suffix in ((settings_in(tmp_path), "|  |"), (settings_in(tmp_path, text), "|")):
        named = re.findall(
            rf"^\| `(middleware/\w+\.py)` .*{re.escape(suffix)}$", sections["Every request"], re.MULTILINE
        )
        tracing = bootstrap.open_tracing(configured, "web")
        modules = [entry.cls.__module__ for entry in middleware(configured, tracing)]
        if tracing is not None:
            tracing.close()
        assert modules == [f"daybreak.web.{name.removesuffix('.py').replace('/', '.')}" for name in named]


@pytest.mark.release
def test_row_and_setting_run_the_named_modules(sections: dict[str, str], tmp_path: Path) -> None:
    make_platform(tmp_path / "platform", PlatformSizes(leaders=3, members=60, messages=60), seed=3, as_of=LONG_AGO)
    trace = CallTrace()
    hour = (datetime.now(UTC) - timedelta(minutes=5)).strftime("%H:%M")
    with trace.active():
        settings = settings_in(tmp_path, f'source.location = "platform"\nsnapshot.publish_at = "{hour}"')
        migrate(settings.state.url.get_secret_value())
        state = bootstrap.open_state(settings)
        try:
            Builder(bootstrap.run_context(settings, state)).step()
            published = state.read(lambda stores: stores.snapshots.current())
        finally:
            state.close()
    assert published is not None
    assert published.state is SnapshotState.PUBLISHED
    run = trace.take()
    # Rows pass through generators and threads, so the first calls have no fixed order.
    assert set(steps(sections["A row"])) <= set(run)
    assert_order([step for step in steps(sections["A setting"]) if step.function.islower()], run)


def steps(text: str) -> list[Call]:
    """Return the numbered entries of a section."""
    return [Call(*found) for found in re.findall(r"^\d+\. `([\w/]+\.py)`, `(\w+)`:", text, re.MULTILINE)]


def module_file(sources: Path, step: Call) -> Path:
    """Return the file of a step. Modules of the service are named without their package."""
    return sources / step.module if step.module.startswith("daybreak_client/") else sources / "daybreak" / step.module


def names_in(path: Path) -> set[str]:
    """Return the classes and functions of a module, methods included."""
    tree = ast.parse(path.read_text("utf-8"))
    kinds = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds)}


def assert_order(named: Sequence[Call], run: Sequence[Call]) -> None:
    assert [call for call in named if call not in run] == []
    assert named == sorted(named, key=run.index)
