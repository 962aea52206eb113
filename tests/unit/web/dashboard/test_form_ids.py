"""Forms that are processed once, and can be sent again after any failure."""

from __future__ import annotations

import asyncio
import secrets
from types import SimpleNamespace
from typing import Any, cast

import pytest

from daybreak.access import throttle
from daybreak.domain.errors import InvalidRequest, RateLimited, Unavailable
from daybreak.web.dashboard import page_request
from daybreak.web.dashboard.form_ids import claimed_form, new_form_id
from daybreak.web.dashboard.page_request import PageRequest, read_page_form
from tests.unit.access.conftest import instance
from tests.unit.access.instance import ROSA, Instance

__all__ = ["instance"]


def page_of(instance: Instance) -> PageRequest:
    services = SimpleNamespace(state=instance.state, random=secrets.token_bytes)
    page = SimpleNamespace(
        dashboard=SimpleNamespace(services=services),
        session=SimpleNamespace(sid="sid"),
        seat=SimpleNamespace(seat_id=ROSA),
        request=None,
        now=instance.now[0],
    )
    return cast("PageRequest", page)


def claim(instance: Instance, form_id: str, fault: BaseException | None = None) -> bool:
    async def work() -> bool:
        async with claimed_form(page_of(instance), form_id) as is_first:
            if fault is not None:
                raise fault
            return is_first

    return instance.run(work())


@pytest.mark.parametrize("fault", [InvalidRequest("x"), Unavailable("x"), RuntimeError("x"), asyncio.CancelledError()])
def test_form_can_be_sent_again_after_any_failure(instance: Instance, fault: BaseException) -> None:
    form_id = new_form_id(page_of(instance))
    with pytest.raises(type(fault)):
        claim(instance, form_id, fault)
    assert claim(instance, form_id) is True
    assert claim(instance, form_id) is False
    with pytest.raises(InvalidRequest):
        claim(instance, "short")


def test_number_of_forms_of_a_seat_is_bounded(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    async def read_form(*_: Any) -> dict[str, str]:
        return {"name": "x"}

    monkeypatch.setattr(page_request, "read_verified_form", read_form)
    (rule,) = throttle.change_rules(seat_id=ROSA)
    instance.write(lambda stores: stores.throttle.count([rule], instance.now[0], attempts=rule.limit - 1))
    assert instance.run(read_page_form(page_of(instance))) == {"name": "x"}
    with pytest.raises(RateLimited):
        instance.run(read_page_form(page_of(instance)))
