"""Forms that are processed once, and can be sent again after any failure."""

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest
from starlette.responses import Response

from daybreak.access import throttle
from daybreak.domain.errors import InvalidRequest, RateLimited, Unavailable
from daybreak.web.dashboard.page_handlers import process_once
from daybreak.web.dashboard.page_request import PageRequest, Policy, count_form
from tests.unit.access.conftest import instance
from tests.unit.access.instance import ROSA, Instance

__all__ = ["instance"]


def page_of(instance: Instance, salt: str = "a") -> PageRequest:
    page = SimpleNamespace(
        services=SimpleNamespace(state=instance.state),
        dashboard=None,
        session=SimpleNamespace(seat_id=ROSA, started_at=instance.now[0]),
        seat=SimpleNamespace(seat_id=ROSA),
        account_count=0,
        policy=Policy(once="settings/tokens/{token_id}?done=token-exists"),
        form={"csrf": f"kid.{salt}.mac"},
        request=SimpleNamespace(path_params={"token_id": "one"}),
        redirect=lambda path, done: Response(f"{path} {done}", 303),
        now=instance.now[0],
    )
    return cast("PageRequest", page)


async def send(instance: Instance, result: int | BaseException, salt: str = "a") -> Response:
    """Send a form whose processing returns this status or raises this error."""

    async def process(page: PageRequest) -> Response:
        if isinstance(result, BaseException):
            raise result
        return Response("processed", result)

    return await process_once(page_of(instance, salt), process)


@pytest.mark.parametrize("fault", [InvalidRequest("x"), Unavailable("x"), RuntimeError("x"), asyncio.CancelledError()])
async def test_form_can_be_sent_again_after_any_failure(instance: Instance, fault: BaseException) -> None:
    with pytest.raises(type(fault)):
        await send(instance, fault)
    assert (await send(instance, 400)).body == b"processed"
    assert (await send(instance, 200)).body == b"processed"
    assert (await send(instance, 200)).body == b"settings/tokens/one token-exists"
    assert (await send(instance, 200, salt="b")).body == b"processed"


async def test_number_of_forms_of_a_seat_is_bounded(instance: Instance) -> None:
    (rule,) = throttle.change_rules(seat_id=ROSA, accounts=1)
    instance.write(lambda stores: stores.throttle.count([rule], instance.now[0], attempts=rule.limit - 1))
    await count_form(page_of(instance))
    with pytest.raises(RateLimited):
        await count_form(page_of(instance))
