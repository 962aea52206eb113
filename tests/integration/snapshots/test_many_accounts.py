"""Statements of more accounts than one pack holds, and copies of more files than one batch, on two days."""

from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from daybreak.credentials.signing_folder import create_keys
from daybreak.demo.plan import PlatformSizes
from daybreak.demo.platform import make_platform
from daybreak.domain.snapshot import SnapshotState
from daybreak.filestore.local_disk import LocalDisk
from daybreak.proof.statement_pack import ACCOUNTS_PER_PACK
from daybreak.snapshots.copy_files import copy_files
from daybreak.snapshots.run import run_manually
from daybreak.snapshots.verify import verify_snapshot
from tests.integration.snapshots.test_signing import accounts, predicate, signed
from tests.parts.erasure import AS_OF
from tests.parts.killed_builder import context_of
from tests.parts.variants import one_of
from tests.small_platform import create_state


@pytest.mark.release
@pytest.mark.parametrize("pack_size", one_of(5, ACCOUNTS_PER_PACK))
def test_statements_of_several_packs_are_found_and_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack_size: int
) -> None:
    monkeypatch.setattr("daybreak.snapshots.signing.ACCOUNTS_PER_PACK", pack_size)
    leaders = pack_size * 7 // 6 + 3
    sizes = PlatformSizes(leaders=leaders, members=leaders, messages=leaders)
    make_platform(tmp_path / "platform", sizes, seed=3, as_of=AS_OF)
    create_state(tmp_path)
    create_keys(tmp_path / "signing")
    context = context_of(tmp_path, tmp_path / "platform")
    with closing(context.state):
        first = run_manually(context, as_of=AS_OF)
        clients = sorted(accounts(context, first))
        stored = context.state.read(lambda stores: stores.signatures.of_publication(1))
        assert stored is not None
        packs = stored.packs
        assert [pack.first for pack in packs] == [clients[0], clients[pack_size]]
        digests = {}
        for client_id in clients:
            statement = signed(context, client_id)
            assert predicate(statement)["client_id"] == client_id
            digests[client_id] = statement.sha256
        for stranger in ("00000000-0000-4000-8000-000000000000", "ffffffff-ffff-4fff-bfff-ffffffffffff"):
            assert signed(context, stranger) is None
        assert verify_snapshot(context.state, context.store, first.snapshot_id).damaged == ()
        # The statements of the first pack are still known on the second day.
        (tmp_path / "files" / packs[1].key).unlink()
        second = run_manually(context, as_of=AS_OF + timedelta(days=1))
        assert second.state is SnapshotState.PUBLISHED
        for place, client_id in enumerate(clients):
            previous = predicate(signed(context, client_id))["previous"]
            assert (previous or {}).get("sha256") == (digests[client_id] if place < pack_size else None)
        target = LocalDisk(tmp_path / "target")
        copied = copy_files(context.state, context.store, target, 4, lambda _: None)
        assert copied.faults == [f"The file {packs[1].key} cannot be read: No such file or directory."]
        moved = replace(context, store=target)
        assert [signed(moved, client_id) for client_id in clients] == [signed(context, each) for each in clients]
        assert verify_snapshot(context.state, target, second.snapshot_id).damaged == ()
