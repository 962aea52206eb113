"""Known devices: a separate second-factor limit, for devices that no guesser can obtain."""

import pytest

from daybreak.access import enrolment, second_factor, sessions
from daybreak.access.login import SessionStarted
from daybreak.access.throttle import MAX_KNOWN_DEVICES
from daybreak.domain.errors import RateLimited, Unauthenticated
from daybreak.domain.identity import Caller
from tests.unit.access.instance import CALLER, ELSEWHERE, OMAR, ROSA, Instance
from tests.unit.access.test_second_factor import seed_of


async def complete(
    instance: Instance, code: str, device_id: str | None = None, caller: Caller = CALLER
) -> SessionStarted:
    """Sign in to Omar's seat with a code."""
    pending = await instance.start_login(device_id=device_id, caller=caller)
    return await second_factor.complete_login(instance.services, pending.token, code, caller, device_id=device_id)


async def guess_until_refused(instance: Instance, seed: bytes, device_id: str | None = None) -> int:
    """Return the number of wrong codes until the limit refuses one."""
    for attempts in range(100):
        try:
            await complete(instance, instance.wrong_code(seed), device_id, ELSEWHERE)
        except RateLimited:
            return attempts
        except Unauthenticated:
            continue
    raise AssertionError("guesses are not limited")


async def test_guesses_elsewhere_do_not_block_a_known_device(instance: Instance) -> None:
    seed = instance.enrol_second_factor()
    device_id = (await complete(instance, instance.code(seed))).device_id
    instance.advance(seconds=30)
    assert await guess_until_refused(instance, seed) == 5
    with pytest.raises(RateLimited):
        await complete(instance, instance.code(seed))
    assert (await complete(instance, instance.code(seed), device_id)).device_id == device_id


async def test_known_device_has_the_same_limits(instance: Instance) -> None:
    seed = instance.enrol_second_factor()
    device_id = (await complete(instance, instance.code(seed))).device_id
    assert await guess_until_refused(instance, seed, device_id) == 5
    instance.advance(seconds=30)
    # Neither unknown devices nor other seats' devices are limited by it.
    rosa = (await instance.log_in()).device_id
    assert await guess_until_refused(instance, seed, rosa) == 5
    with pytest.raises(RateLimited):
        await complete(instance, instance.code(seed))


async def test_device_of_a_password_login_is_unknown_after_enrolment(instance: Instance) -> None:
    device_id = (await instance.log_in("omar@example.org")).device_id
    instance.advance(seconds=1)
    seed = instance.enrol_second_factor()
    assert await guess_until_refused(instance, seed) == 5
    with pytest.raises(RateLimited):
        await complete(instance, instance.code(seed), device_id)


async def test_enrolment_keeps_its_own_device_known(instance: Instance) -> None:
    started = await instance.log_in()
    other = await instance.log_in(caller=ELSEWHERE)
    active = await sessions.active_session(instance.services, started.token)
    seed = seed_of(await enrolment.begin(instance.services, active))
    instance.advance(seconds=1)
    await enrolment.confirm(instance.services, active, instance.code(seed), CALLER)
    assert device(instance, ROSA, other.device_id) is None
    _, device_id = seed, started.device_id
    assert device(instance, ROSA, device_id) == device_id


async def test_guesses_do_not_block_an_enrolment_on_a_known_device(instance: Instance) -> None:
    seed = instance.enrol_second_factor()
    started = await complete(instance, instance.code(seed))
    await guess_until_refused(instance, seed)
    active = await sessions.active_session(instance.services, started.token)
    new_seed = seed_of(await enrolment.begin(instance.services, active))
    await enrolment.confirm(instance.services, active, instance.code(new_seed), CALLER)


async def test_the_devices_used_last_are_known(instance: Instance) -> None:
    devices = []
    for _ in range(MAX_KNOWN_DEVICES + 1):
        devices.append((await instance.log_in()).device_id)
        instance.advance(seconds=1)
    assert [device(instance, ROSA, each) for each in devices] == [None, *devices[1:]]
    again = await instance.log_in(device_id=devices[1])
    assert again.device_id == devices[1]
    assert device(instance, OMAR, devices[1]) is None


def device(instance: Instance, seat_id: str, device_id: str) -> str | None:
    """Return the device id if the seat knows the device."""
    known = instance.state.read(
        lambda stores: stores.sessions.known_device(device_id, seat_id, at_most=MAX_KNOWN_DEVICES)
    )
    return None if known is None else known.device_id
