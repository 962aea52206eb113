"""Changes of permissions on an account, while another operator changes them too."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import TypeVar, cast

from daybreak.state.stores import Stores
from daybreak.web.dashboard.operator.accounts import put_grant
from daybreak.web.dashboard.page_request import PageRequest
from tests.unit.access.conftest import instance
from tests.unit.access.instance import ALPHA, ROSA, Instance

__all__ = ["instance"]
T = TypeVar("T")


async def test_repeated_transaction_saves_permissions_that_are_not_fewer(instance: Instance) -> None:
    def write(work: Callable[[Stores], T]) -> T:
        """Run the work again after a change by another operator, as PostgreSQL requires of conflicting transactions."""
        instance.state.write(work)
        instance.put_grant(ROSA, ALPHA, roles=("analyst",), data_export=False)
        return instance.state.write(work)

    async def find(work: Callable[[Stores], object], _missing: str) -> object:
        return instance.state.read(work)

    async def run_task(task: Callable[[], object]) -> object:
        return task()

    instance.put_grant(ROSA, ALPHA, roles=("owner",), async_rest_api=True)
    form = {"email": "rosa@example.org", "role": "analyst", "data_export": "yes"}
    page = SimpleNamespace(
        form=form,
        fields=form,
        request=SimpleNamespace(path_params={"account_id": ALPHA}),
        services=SimpleNamespace(new_id=lambda: "new", state=SimpleNamespace(write=write)),
        seat=SimpleNamespace(email="operator@example.org"),
        now=instance.now[0],
        find=find,
        run_task=run_task,
        redirect=lambda path, **query: (path, query),
    )
    response: object = await put_grant(cast("PageRequest", page))
    assert response == (f"accounts/{ALPHA}", {"done": "grant-saved"})
