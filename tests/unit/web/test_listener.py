"""The address that the service listens on."""

import socket
from pathlib import Path

import pytest

from daybreak.domain.errors import OperatorError
from daybreak.web.listener import TcpAddress, accepts, claim_address


def test_free_port_is_claimed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert claim_address(f"localhost:{port}") == TcpAddress("127.0.0.1", port)


def test_port_of_another_process_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0), reuse_port=True) as listener:
        port = listener.getsockname()[1]
        assert accepts(TcpAddress("127.0.0.1", port))
        with pytest.raises(OperatorError, match=r"listen = .* another process listens there"):
            claim_address(f"127.0.0.1:{port}")


def test_stale_socket_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "web.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    assert claim_address(f"unix:{path}") == path
    assert not path.exists()


def test_socket_of_a_running_service_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "web.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        with pytest.raises(OperatorError, match="another process listens there"):
            claim_address(f"unix:{path}")
    assert path.exists()


def test_file_that_is_not_a_socket_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_text("important")
    with pytest.raises(OperatorError, match="is not a socket"):
        claim_address(f"unix:{path}")
    assert path.read_text() == "important"


def test_socket_in_a_missing_folder_names_the_setting(tmp_path: Path) -> None:
    listen = f"unix:{tmp_path}/missing/web.sock"
    with pytest.raises(OperatorError) as refused:
        claim_address(listen)
    assert refused.value.message == f"listen = {listen!r}: No such file or directory."
