"""Management of webhooks: permissions, limits, secrets, the audit trail."""

from dataclasses import replace as changed

import pytest
from msgspec.structs import replace

from daybreak.access import sessions
from daybreak.access.services import Services
from daybreak.credentials import webhook_secret
from daybreak.domain.errors import Conflict, Forbidden, InvalidRequest, NotFound, RateLimited
from daybreak.domain.events import ACCOUNT_EVENTS, DeliveryState, EventType
from daybreak.domain.identity import Principal
from daybreak.events import webhooks
from tests.unit.access.instance import ALPHA, BRAVO, CALLER, ROSA
from tests.unit.events.conftest import Events

URL = "http://127.0.0.1:9/hook"


@pytest.fixture
def services(events: Events) -> Services:
    return events.instance.services


async def _principal(events: Events, role: str = "owner", client_id: str = ALPHA) -> Principal:
    """Sign Rosa in to an account with that role."""
    events.instance.put_grant(ROSA, client_id, roles=(role,))
    started = await events.instance.log_in()
    active = await sessions.active_session(events.instance.services, started.token)
    switched = await sessions.switch(events.instance.services, active, client_id, CALLER)
    return await sessions.authenticate(events.instance.services, switched)


async def _create(events: Events, principal: Principal, url: str = URL) -> webhooks.WebhookSecret:
    return await webhooks.create(events.instance.services, principal, url=url, caller=CALLER)


async def test_only_owners_and_admins_manage_webhooks(events: Events, services: Services) -> None:
    with pytest.raises(Forbidden) as refused:
        await _create(events, await _principal(events, "analyst"))
    assert refused.value.code == "owner_or_admin_required"
    created = await _create(events, await _principal(events, "admin"))
    analyst = await _principal(events, "analyst")
    endpoint_id = created.webhook.endpoint_id
    for work in (
        webhooks.list_of_account(services, analyst),
        webhooks.find(services, analyst, endpoint_id),
        webhooks.rotate(services, analyst, endpoint_id, CALLER),
        webhooks.disable(services, analyst, endpoint_id, CALLER),
        webhooks.enable(services, analyst, endpoint_id, CALLER),
        webhooks.take_over(services, analyst, endpoint_id, CALLER),
        webhooks.remove(services, analyst, endpoint_id, CALLER),
        webhooks.send_test(services, analyst, endpoint_id, CALLER),
        webhooks.choose_events(services, analyst, endpoint_id, ACCOUNT_EVENTS, CALLER),
        webhooks.retry(services, analyst, endpoint_id, "x", CALLER),
    ):
        with pytest.raises(Forbidden):
            await work


async def test_events_of_a_webhook_are_chosen(events: Events, services: Services) -> None:
    owner = await _principal(events)
    created = (await _create(events, owner)).webhook
    assert created.event_types is None
    chosen = [EventType.SNAPSHOT_LATE, EventType.WEBHOOK_TEST]
    await webhooks.choose_events(services, owner, created.endpoint_id, chosen, CALLER)
    changed_webhook = await webhooks.find(services, owner, created.endpoint_id)
    assert changed_webhook.event_types == "snapshot.late"
    with pytest.raises(InvalidRequest):
        await webhooks.choose_events(services, owner, created.endpoint_id, [], CALLER)
    assert [each.result for each in events.instance.audit("webhook.events_changed")] == ["ok"]


async def test_webhook_of_another_account_is_unknown(events: Events, services: Services) -> None:
    created = await _create(events, await _principal(events))
    other, endpoint_id = await _principal(events, client_id=BRAVO), created.webhook.endpoint_id
    for work in (
        webhooks.find(services, other, endpoint_id),
        webhooks.rotate(services, other, endpoint_id, CALLER),
        webhooks.disable(services, other, endpoint_id, CALLER),
        webhooks.remove(services, other, endpoint_id, CALLER),
        webhooks.send_test(services, other, endpoint_id, CALLER),
        webhooks.retry(services, other, endpoint_id, "x", CALLER),
        webhooks.find(services, other, "no id\x00"),
    ):
        with pytest.raises(NotFound):
            await work
    assert events.webhook(endpoint_id).disabled_at is None


async def test_secrets_need_a_recent_password(events: Events, services: Services) -> None:
    principal = await _principal(events)
    created = await _create(events, principal)
    events.instance.advance(minutes=11)
    for work in (
        webhooks.create(services, principal, url=URL, caller=CALLER),
        webhooks.rotate(services, principal, created.webhook.endpoint_id, CALLER),
        webhooks.remove(services, principal, created.webhook.endpoint_id, CALLER),
    ):
        with pytest.raises(Forbidden) as refused:
            await work
        assert refused.value.code == "reauthentication_required"


async def test_account_has_up_to_five_webhooks(events: Events) -> None:
    principal = await _principal(events)
    for _ in range(5):
        await _create(events, principal)
    with pytest.raises(Conflict) as refused:
        await _create(events, principal)
    assert refused.value.code == "too_many_webhooks"
    await _create(events, await _principal(events, client_id=BRAVO))


async def test_private_url_is_refused(events: Events) -> None:
    with pytest.raises(InvalidRequest):
        await _create(events, await _principal(events), "https://10.0.0.1/")


async def test_rotation_keeps_the_old_secret_for_a_day(events: Events, services: Services) -> None:
    principal = await _principal(events)
    created = await _create(events, principal)
    rotated = await webhooks.rotate(services, principal, created.webhook.endpoint_id, CALLER)
    stored, ring = events.webhook(created.webhook.endpoint_id), services.keyring.current()
    assert stored.previous_secret == created.webhook.sealed_secret
    assert webhook_secret.decrypt(stored.sealed_secret, endpoint_id=stored.endpoint_id, keyring=ring) == rotated.secret
    assert stored.previous_until is not None
    assert (stored.previous_until - events.instance.now[0]).total_seconds() == 86_400


async def test_changes_are_recorded_without_the_secret(events: Events, services: Services) -> None:
    principal = await _principal(events)
    created = await _create(events, principal)
    endpoint_id = created.webhook.endpoint_id
    for work in (
        webhooks.send_test(services, principal, endpoint_id, CALLER),
        webhooks.rotate(services, principal, endpoint_id, CALLER),
        webhooks.disable(services, principal, endpoint_id, CALLER),
        webhooks.disable(services, principal, endpoint_id, CALLER),
        webhooks.enable(services, principal, endpoint_id, CALLER),
        webhooks.remove(services, principal, endpoint_id, CALLER),
    ):
        await work
    recorded = events.instance.audit("webhook.*")
    assert [event.action.removeprefix("webhook.") for event in recorded] == [
        "created", "tested", "secret_rotated", "disabled", "enabled", "removed",
    ]  # fmt: skip
    assert all(event.client_id == ALPHA and event.seat_id == ROSA for event in recorded)
    assert created.secret not in str(recorded)


async def test_disabled_webhook_is_not_tested(events: Events, services: Services) -> None:
    principal = await _principal(events)
    endpoint_id = (await _create(events, principal)).webhook.endpoint_id
    await webhooks.disable(services, principal, endpoint_id, CALLER)
    with pytest.raises(Conflict):
        await webhooks.send_test(services, principal, endpoint_id, CALLER)


async def test_number_of_test_events_is_bounded(events: Events, services: Services) -> None:
    owner = await _principal(events)
    endpoint_id = (await _create(events, owner)).webhook.endpoint_id
    for _ in range(30):
        await webhooks.send_test(services, owner, endpoint_id, CALLER)
    with pytest.raises(RateLimited):
        await webhooks.send_test(services, owner, endpoint_id, CALLER)
    assert len(events.instance.audit("webhook.tested")) == 30


async def test_failed_delivery_is_retried_with_its_id(events: Events, services: Services) -> None:
    principal = await _principal(events)
    webhook = (await _create(events, principal)).webhook
    events.instance.write(lambda stores: stores.webhooks.set_failing(webhook.endpoint_id, None))
    await webhooks.send_test(services, principal, webhook.endpoint_id, CALLER)
    await events.deliver()
    (delivery,) = events.deliveries()
    retry = webhooks.retry(services, principal, webhook.endpoint_id, delivery.delivery_id, CALLER)
    assert await retry is False
    await webhooks.disable(services, principal, webhook.endpoint_id, CALLER)
    await webhooks.enable(services, principal, webhook.endpoint_id, CALLER)
    assert events.deliveries()[0].state is DeliveryState.FAILED
    retry = webhooks.retry(services, principal, webhook.endpoint_id, delivery.delivery_id, CALLER)
    assert await retry is True
    assert events.deliveries()[0].message_id == delivery.message_id
    (logged,) = await webhooks.delivery_log(services, principal, webhook.endpoint_id)
    assert [attempt.number for attempt in logged.attempts] == [1]


async def test_webhooks_can_be_switched_off(events: Events, services: Services) -> None:
    principal = await _principal(events)
    events.change(events={"webhooks": False})
    off = changed(services, settings=events.settings)
    with pytest.raises(NotFound, match="Webhooks are off"):
        await webhooks.create(off, principal, url=URL, caller=CALLER)


async def test_api_tokens_cannot_manage_webhooks(events: Events, services: Services) -> None:
    principal = replace(await _principal(events), kind="api_token", session=None)
    with pytest.raises(Forbidden) as refused:
        await webhooks.list_of_account(services, principal)
    assert refused.value.code == "session_required"
