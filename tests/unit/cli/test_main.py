"""The command line: help without heavy imports, exit codes, error messages."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from daybreak.cli.examples import EXAMPLES
from daybreak.cli.main import VERBS, make_app, run
from daybreak.cli.output import describe_error
from daybreak.domain.errors import CONNECTION_ADVICE, OperatorError, RunError, Unavailable
from tests.parts.help_pages import lost_help
from tests.parts.ports import free_port

HEAVY = (
    "duckdb",
    "sqlalchemy",
    "starlette",
    "granian",
    "prometheus_client",
    "obstore",
    "isal",
    "psycopg",
    "pyspark",
    "jinja2",
    "cryptography",
    "pydantic",
)


def test_empty_argument_is_not_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["init", ""]) == 2
    assert "argument is empty" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_contains_every_verb(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(name in script for name, _, _ in VERBS)


def test_help_has_no_heavy_imports() -> None:
    code = (
        "import sys; from daybreak.cli.main import run; status = run(['--help']); "
        f"print(status, sorted(set({HEAVY!r}) & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.splitlines()[-1] == "0 []"
    for name, _, text in VERBS:
        assert name in done.stdout
        assert text in " ".join(done.stdout.split())


@pytest.mark.parametrize("name", [name for name, _, _ in VERBS])
def test_every_verb_has_help_with_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = make_app()[name]
    verbs_below = [] if command.default_command else [verb for verb in command if not verb.startswith("-")]
    for verbs in ([name], *([name, verb] for verb in verbs_below)):
        assert run([*verbs, "--help"]) == 0
        shown = capsys.readouterr().out
        assert f"Usage: daybreakd {' '.join(verbs)}" in shown
        command = make_app()[name] if len(verbs) == 1 else make_app()[name][verbs[1]]
        if command.default_command:
            assert lost_help(shown, command.default_command.__doc__) == []
        lines = [line for _, line in EXAMPLES[name]]
        own = [line for line in lines if f"daybreakd {' '.join(verbs)} " in f"{line} "] or lines
        assert [line for line in lines if f"\n  {line}\n" in shown] == own


@pytest.mark.parametrize("line", [line for lines in EXAMPLES.values() for _, line in lines])
def test_examples_are_valid_command_lines(line: str) -> None:
    """Each example is a valid command line that fits a narrow terminal."""
    assert max(map(len, line.splitlines())) <= 78
    command_line = line.replace("\\\n", "").partition(" > ")[0]
    words = [word for word in shlex.split(command_line) if not word.startswith("DAYBREAK_")]
    assert words[0] == "daybreakd"
    make_app().parse_args(words[1:])


@pytest.mark.parametrize(
    ("arguments", "message", "help_of"),
    [
        (["bogus"], "bogus", ""),
        (["serve", "--bogus"], "--bogus", " serve"),
        (["snapshot", "publish"], "--snapshot-id", " snapshot publish"),
        (["demo", "--leaders", "many"], "--leaders", " demo"),
        (["demo", "--members", "0"], "--members", " demo"),
        (["demo", "--port", "65536"], "--port", " demo"),
        (["directory", "export", "one", "two"], "Too many arguments: one two", " directory export"),
    ],
)
def test_wrong_use_names_the_help_and_exits_with_2(
    arguments: list[str], message: str, help_of: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("daybreakd: ")
    assert message in printed.err
    assert f"See `daybreakd{help_of} --help`." in printed.err
    assert printed.out == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["audit", "--since", "2x"], "--since: Use an instant such as 2026-11-20T04:00:00Z, or an age"),
        (["audit", "--since", "yesterday"], "--since: Use an instant"),
        (["audit", "--account", "nonsense"], "--account: 'nonsense' is not a client_id such as"),
        (["token", "list", "--account", "acme"], "--account: 'acme' is not a client_id such as"),
        (["snapshot", "run", "--as-of", "noon", "--config", "CONFIG"], "--as-of: Use an instant"),
        (["state", "copy", "a", "b"], "SOURCE: Use "),
        (["state", "copy", "sqlite:///a.db", "b"], "TARGET: Use "),
        (["state", "copy", "sqlite:///a.db", "postgresql://a:b@c/d"], "TARGET contains a password"),
        (["state", "copy", "postgresql://a:b@c,e/d", "sqlite:///a.db"], "SOURCE contains a password"),
        (["init", "new", "--source", "postgresql://a@c/d?password=b"], "--source contains a password"),
        (["token", "revoke"], "--leaked"),
        (["snapshot", "verify", "3e4f", "--deltas", "--config", "CONFIG"], "Leave out the snapshot id."),
        (["events", "list", "--limit", "9" * 20, "--config", "CONFIG"], "Must be <= 1000000000."),
        # Versions only grow: after a larger one, nothing could be published any more.
        (["trust", "resume-above", "9" * 18, "--config", "CONFIG"], "Must be <= 1000000000."),
        (["trust", "resume-above", "0", "--config", "CONFIG"], "Must be >= 1."),
        # The byte 0xFF, as Python decodes arguments.
        (["seat", "disable", "zo\udcff@example.org", "--config", "CONFIG"], "Use UTF-8."),
        (["audit", "--seat", "zo\udcff@example.org", "--config", "CONFIG"], "Use UTF-8."),
    ],
)
def test_invalid_value_is_wrong_use(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = tmp_path / "daybreak.toml"
    config.write_text('[source]\nlocation = "platform"\n')
    assert run([str(config) if word == "CONFIG" else word for word in arguments]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("daybreakd: ")
    assert message in printed


def test_invalid_configuration_exits_with_2(
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


def test_version_option_prints_the_package_version(capsys: pytest.CaptureFixture[str]) -> None:
    import daybreak

    assert run(["--version"]) == 0
    assert capsys.readouterr().out.strip() == daybreak.__version__


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (RunError("The run was stopped.", code="run_stopped"), 130, "daybreakd: The run was stopped.\n"),
        (KeyboardInterrupt(), 130, "daybreakd: interrupted\n"),
        (PermissionError(13, "Permission denied", "/srv/x"), 1, "daybreakd: /srv/x: Permission denied\n"),
        (OperatorError("no"), 1, "daybreakd: no\n"),
    ],
)
def test_errors_have_a_message_and_an_exit_code(
    error: BaseException, code: int, message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object) -> None:
        raise error

    monkeypatch.setattr("daybreak.cli.doctor.settings_of", fail)
    assert run(["doctor"]) == code
    assert capsys.readouterr().err == message


def test_cause_has_one_line_without_error_number() -> None:
    error = Unavailable("The state database is unavailable.", code="state_unavailable")
    error.__cause__ = OSError("failed to resolve host 'db': [Errno -2] Name or service not known\nHINT")
    assert describe_error(error).splitlines() == [
        "The state database is unavailable.",
        f"  state.url: failed to resolve host 'db': Name or service not known. {CONNECTION_ADVICE}",
    ]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_output_is_utf8_in_any_locale(encoding: str, tmp_path: Path) -> None:
    folder = tmp_path / "Zoë 🎉"
    command = [sys.executable, "-m", "daybreak.cli.main", "init", str(folder)]
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run(command, capture_output=True, env=environment, timeout=120, check=False)
    assert (done.returncode, done.stderr.decode()) == (0, "")
    assert str(folder / "daybreak.toml") in done.stdout.decode()


def test_input_in_another_encoding_is_wrong_use() -> None:
    program = "from daybreak.cli.options import read_line; read_line()"
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    text = "Straße\n".encode("latin-1")
    done = subprocess.run(
        [sys.executable, "-c", program], input=text, env=environment, capture_output=True, check=False
    )
    assert done.stderr.endswith(b"WrongUse: Standard input is not UTF-8. Nothing was changed.\n")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_ignored(closed: str) -> None:
    command = f"exec {shlex.quote(sys.executable)} -m daybreak.cli.main --version {closed}"
    assert subprocess.run(["sh", "-c", command], timeout=120, check=False).returncode == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("arguments", ["--version", "completion zsh", "snapshot --help"])
def test_full_output_is_reported_in_one_line(arguments: str) -> None:
    command = f"exec {shlex.quote(sys.executable)} -m daybreak.cli.main {arguments} > /dev/full"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (1, "daybreakd: standard output: No space left on device\n")


@pytest.mark.parametrize("log_format", ["json", "console"])
@pytest.mark.parametrize("sink", ["/dev/full", ">(exec true)"])
def test_messages_that_cannot_be_written_end_no_process(sink: str, log_format: str) -> None:
    """A full disk, or a program that reads messages and ends, must not end a run or the service."""
    program = (
        "import structlog, time\n"
        "from daybreak.cli.logs import configure_logging\n"
        "from daybreak.cli.output import print_note\n"
        "from daybreak.settings import load_settings\n"
        "time.sleep(0.2)\n"
        f"names = {{'DAYBREAK_SOURCE__LOCATION': 'x', 'DAYBREAK_LOG_FORMAT': {log_format!r}}}\n"
        "configure_logging(load_settings(None, names))\n"
        "for _ in range(1000):\n"
        "    structlog.get_logger('test').error('happened', text='x' * 100)\n"
        "    print_note('a note')\n"
        "print('done')"
    )
    command = f"exec {shlex.quote(sys.executable)} -c {shlex.quote(program)} 2> {sink}"
    done = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, text=True, timeout=120, check=False)
    assert done.stdout == "done\n"


def test_closed_pipe_of_another_stream_is_not_the_reader_of_the_output() -> None:
    program = (
        "from daybreak.cli import main\n"
        "def fail(_arguments):\n"
        "    raise BrokenPipeError(32, 'Broken pipe')\n"
        "main.make_app = fail\n"
        "main.main([])"
    )
    assert subprocess.run([sys.executable, "-c", program], stderr=subprocess.DEVNULL, check=False).returncode == 1


def test_process_ends_without_releasing_its_objects() -> None:
    program = (
        "import atexit, duckdb\n"
        "class Held:\n"
        "    def __del__(self):\n"
        "        print('released')\n"
        "held = Held()\n"
        "connection = duckdb.connect()\n"
        "from daybreak.cli import main\n"
        "main.run = lambda _arguments: atexit.register(print, 'exit function') and 2\n"
        "main.main([])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (2, "exit function\n")
    assert done.stderr == ""


def test_missing_service_packages_are_named() -> None:
    program = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name in ('msgspec', 'duckdb', 'sqlalchemy'):\n"
        "            raise ModuleNotFoundError(name, name=name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "from daybreak.cli.main import run\n"
        f"sys.exit(run(['demo', '--leaders', '1', '--port', '{free_port()}']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("daybreakd: ")
    assert "extra `server`" in done.stderr
