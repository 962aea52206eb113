"""The command line itself: help without heavy imports, exit codes, one clear message."""

import subprocess
import sys

import pytest

from daybreak.cli.main import VERBS, make_app, run

HEAVY = (
    "duckdb",
    "sqlalchemy",
    "starlette",
    "granian",
    "obstore",
    "isal",
    "psycopg",
    "pyspark",
    "jinja2",
    "cryptography",
)


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from daybreak.cli.main import run; status = run(['--help']); "
        f"print(status, sorted(set({HEAVY!r}) & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.splitlines()[-1] == "0 []"
    for name, _, text in VERBS:
        assert name in done.stdout
        assert text in done.stdout


@pytest.mark.parametrize("name", [name for name, _, _ in VERBS])
def test_every_verb_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([name, "--help"]) == 0
    assert f"daybreakd {name}" in capsys.readouterr().out
    assert make_app()[name] is not None


@pytest.mark.parametrize(
    "arguments", [["bogus"], ["serve", "--bogus"], ["snapshot", "show"], ["demo", "--leaders", "many"]]
)
def test_wrong_use_ends_with_two_and_says_where_help_is(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("daybreakd: ")
    assert "--help" in printed.err
    assert printed.out == ""


def test_a_configuration_that_is_missing_or_wrong_ends_with_two(
    tmp_path: object, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(str(tmp_path))
    assert run(["doctor"]) == 2
    assert "daybreakd init" in capsys.readouterr().err
    monkeypatch.setenv("DAYBREAK_SOURCE__LOCATION", "x")
    monkeypatch.setenv("DAYBREAK_WORKERS", "none")
    monkeypatch.setenv("DAYBREAK_STATE__URL", "none")
    assert run(["doctor"]) == 2
    printed = capsys.readouterr().err
    assert "workers" in printed
    assert "state.url" in printed
    assert "Traceback" not in printed


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    import daybreak

    assert run(["--version"]) == 0
    assert capsys.readouterr().out.strip() == daybreak.__version__
