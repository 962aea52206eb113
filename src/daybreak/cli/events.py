"""`daybreakd events`: deliveries of webhooks and mails."""

import os
from typing import Annotated, Literal

from cyclopts import App, Parameter

from daybreak.cli.options import AsJson, Config, Limit, parse_client_id, read_state, settings_of, state_of
from daybreak.cli.output import fields_of, format_instant, print_json, print_note, print_table, print_text
from daybreak.domain.clock import now_utc
from daybreak.domain.errors import OperatorError
from daybreak.domain.events import Delivery, DeliveryState
from daybreak.events.webhooks import retry_by_operator, send_test_by_operator
from daybreak.state.deliveries import DeliveryFilter
from daybreak.state.stores import Stores

app = App(name="events", help="Deliveries of webhooks and mails.")
_FIELDS = (
    "delivery_id", "message_id", "type", "channel", "client_id", "state", "attempts", "status", "detail", "created_at",
    "next_attempt_at", "finished_at",
)  # fmt: skip


@app.command(name="list")
def list_(
    *,
    account: Annotated[str | None, Parameter(help="Only webhooks of this account (client_id).")] = None,
    state: Annotated[
        Literal["pending", "delivered", "failed", "skipped"] | None, Parameter(help="Only deliveries in this state.")
    ] = None,
    limit: Limit = 50,
    config: Config = None,
    json: AsJson = False,
) -> None:
    """List deliveries, newest first."""
    client_id = parse_client_id(account, "--account") if account is not None else None
    selected = DeliveryFilter(client_id=client_id, state=DeliveryState(state) if state is not None else None)
    rows = read_state(
        config,
        lambda stores: [(each, _recipient(stores, each)) for each in stores.deliveries.list_recent(selected, limit)],
    )
    if json:
        print_json([{**fields_of(delivery, *_FIELDS), "to": recipient} for delivery, recipient in rows])
        return
    print_table(
        ("DELIVERY", "CREATED (UTC)", "EVENT", "TO", "STATE", "ATTEMPTS", "STATUS", "NEXT ATTEMPT (UTC)", "DETAIL"),
        [_row(delivery, recipient) for delivery, recipient in rows],
    )


@app.command
def retry(
    delivery_id: Annotated[str, Parameter(help="Id of the delivery, as in `events list`.")], *, config: Config = None
) -> None:
    """Attempt a failed or skipped delivery again, as soon as the builder runs."""
    with state_of(config) as database:
        delivery = database.read(lambda stores: stores.deliveries.get(delivery_id))
        if delivery is None:
            raise OperatorError(f"There is no delivery {delivery_id}. See `daybreakd events list`.")
        if not database.write(lambda stores: retry_by_operator(stores, delivery, now_utc())):
            raise OperatorError(f"Delivery {delivery_id} is pending or delivered. Only others can be retried.")
    print_text(f"{delivery_id} is due now.")


@app.command(name="test")
def send_test(account: Annotated[str, Parameter(help="client_id of the account.")], *, config: Config = None) -> None:
    """Send a test event to every enabled webhook of an account, as soon as the builder runs."""
    settings, client_id, now = settings_of(config), parse_client_id(account, "ACCOUNT"), now_utc()
    if not settings.events.webhooks:
        raise OperatorError("events.webhooks is false. Set it to true to send webhooks.")
    with state_of(settings) as database:
        webhooks = database.write(lambda stores: send_test_by_operator(stores, client_id, now, os.urandom))
    if not webhooks:
        raise OperatorError(f"The account {client_id} has no enabled webhook.")
    for webhook in webhooks:
        print_text(webhook.url)
    print_note("The builder sends the events. See `daybreakd events list` for the results.")


def _recipient(stores: Stores, delivery: Delivery) -> str:
    """Return the URL of the webhook or the email of the seat."""
    if delivery.channel == "webhook":
        webhook = stores.webhooks.get(delivery.endpoint_id or "")
        return webhook.url if webhook is not None else ""
    seat = stores.seats.by_id(delivery.seat_id or "")
    return seat.email if seat is not None else ""


def _row(delivery: Delivery, recipient: str) -> tuple[object, ...]:
    return (
        delivery.delivery_id,
        format_instant(delivery.created_at),
        delivery.type,
        recipient,
        delivery.state,
        delivery.attempts,
        delivery.status,
        format_instant(delivery.next_attempt_at),
        delivery.detail,
    )
