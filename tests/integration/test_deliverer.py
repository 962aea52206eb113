"""The deliverer with a state database on another machine, whose clock differs."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from daybreak.domain.errors import OperatorError
from daybreak.events.context import DeliveryTimings
from daybreak.events.deliverer import Deliverer
from tests.configured import configured
from tests.parts.webhook_receiver import Receiver
from tests.unit.access.instance import open_instance
from tests.unit.events.conftest import LOOPBACK, Events


async def test_deliverer_with_a_wrong_clock_sends_nothing(postgresql_url: str, tmp_path: Path) -> None:
    with open_instance(tmp_path, postgresql_url) as instance, Receiver().running() as receiver:
        settings = configured(instance.services.settings, events={"allowed_networks": LOOPBACK})
        events = Events(instance, settings, DeliveryTimings(), {})
        instance.now[0] = datetime.now(UTC) + timedelta(minutes=6)
        events.add_webhook(receiver.url())
        events.emit()
        with pytest.raises(OperatorError, match=r"^The clock is .* Nothing is built, published, sent or deleted"):
            await Deliverer(events.context).step()
        assert events.deliveries() == []
        instance.now[0] = datetime.now(UTC)
        await events.deliver()
        assert len(receiver.received) == 1
        await instance.services.state.aclose()
