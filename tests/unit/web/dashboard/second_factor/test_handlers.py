"""A setup of the second factor whose key was replaced."""

from daybreak.access.enrolment import enrolment_of
from daybreak.web.dashboard.rendering import invalid_field
from daybreak.web.dashboard.second_factor.handlers import enrolment_context, explain_restart


def test_refused_code_of_a_replaced_key_names_the_restart() -> None:
    first, second = (enrolment_of(bytes([number]) * 20, email="maya@example.org") for number in (1, 2))
    refused, setup = invalid_field("code", "The code is wrong."), str(enrolment_context(first)["setup"])
    assert explain_restart(refused, first, setup) == refused
    assert "scan the new QR code" in explain_restart(refused, second, setup).errors["code"]
