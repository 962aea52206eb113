"""The operator role needs a second factor."""

import pytest

from daybreak.access import operators
from daybreak.domain.errors import OperatorError
from tests.unit.access.instance import OMAR, Instance


def grant(instance: Instance, *, second_factor: bool) -> None:
    seat = instance.seat(OMAR)
    instance.write(
        lambda stores: operators.grant_operator(
            stores, seat, instance.now[0], second_factor=second_factor, actor="operator"
        )
    )


def test_role_needs_an_enrolled_second_factor(instance: Instance) -> None:
    with pytest.raises(OperatorError, match=r"seat enrol omar@example\.org"):
        grant(instance, second_factor=True)
    assert not instance.seat(OMAR).operator
    instance.enrol_second_factor(OMAR)
    grant(instance, second_factor=True)
    assert instance.seat(OMAR).operator


def test_role_needs_none_if_the_setting_is_off(instance: Instance) -> None:
    grant(instance, second_factor=False)
    assert instance.seat(OMAR).operator


def test_reset_of_the_second_factor_withdraws_the_role(instance: Instance) -> None:
    instance.enrol_second_factor(OMAR)
    grant(instance, second_factor=True)
    seat, now = instance.seat(OMAR), instance.now[0]
    instance.write(lambda stores: operators.reset_second_factor(stores, seat, now, actor="operator"))
    assert not instance.seat(OMAR).operator
    assert [event.action for event in instance.audit("seat.operator_withdrawn")] == ["seat.operator_withdrawn"]
