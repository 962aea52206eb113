"""Which rows of an account an operator sees, and when that is recorded."""

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from daybreak.web.dashboard.insight.queries import FigureCache
from daybreak.web.dashboard.operator import explanation
from daybreak.web.dashboard.operator.explanation import may_see, show_explanation
from daybreak.web.dashboard.page_request import PageRequest
from tests.unit.access.conftest import instance
from tests.unit.access.instance import ALPHA, CLOSED, FOREIGN, ROSA, STRICT, Instance

__all__ = ["instance"]


@pytest.mark.parametrize(
    ("client_id", "amr", "expected"),
    [
        (ALPHA, ("pwd",), True),
        (STRICT, ("pwd", "otp"), True),
        # Operators may need no second factor, but this account does.
        (STRICT, ("pwd",), False),
        (CLOSED, ("pwd", "otp"), False),
        (FOREIGN, ("pwd", "otp"), False),
    ],
)
async def test_operator_sees_rows_that_the_session_may_download(
    instance: Instance, client_id: str, amr: tuple[str, ...], expected: bool
) -> None:
    for granted in (ALPHA, CLOSED, STRICT):
        instance.put_grant(ROSA, granted)
    page = SimpleNamespace(
        read=instance.state.aread,
        seat=SimpleNamespace(seat_id=ROSA),
        session=SimpleNamespace(amr=amr),
        services=instance.services,
    )
    assert await may_see(cast("PageRequest", page), client_id) is expected


async def test_rows_are_not_recorded_before_the_page_shows_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page is requested again until the files of all Leaders are compared."""
    recorded: list[str] = []

    async def load(_page: object) -> object:
        largest = [SimpleNamespace(client_id=client_id, entries=()) for client_id in (ALPHA, STRICT)]
        run, resource = SimpleNamespace(snapshot_id="run"), SimpleNamespace(name="members")
        return SimpleNamespace(run=run, resource=resource, largest=largest)

    async def get(_kind: str, key: tuple[str, ...], *_others: object) -> object:
        """Compare the files of the first Leader only."""
        if ALPHA not in key:
            await asyncio.Event().wait()
        return SimpleNamespace(sample=["row"], traits=[])

    async def is_visible(*_others: object) -> bool:
        return True

    async def record(_page: object, _losses: object, client_id: str, _rows: int) -> None:
        recorded.append(client_id)

    monkeypatch.setattr(explanation, "_load", load)
    monkeypatch.setattr(explanation, "may_see", is_visible)
    monkeypatch.setattr(explanation, "_record", record)
    page = SimpleNamespace(
        services=SimpleNamespace(files=None), queue_account="seat", request=SimpleNamespace(method="GET")
    )
    shown = show_explanation(cast("FigureCache", SimpleNamespace(get=get)), cast("PageRequest", page))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(shown, 0.01)
    assert recorded == []
