"""Names of stored values as people read them."""

from __future__ import annotations

from collections.abc import Mapping

_CHANNELS = {"sms": "SMS", "mms": "MMS", "whatsapp": "WhatsApp"}
_MESSAGE_TYPES = {
    "dm": "Direct message",
    "campaign": "Campaign",
    "fan_onboarding": "Member onboarding",
    "opt_in": "Opt-in confirmation",
    "opt_out": "Opt-out confirmation",
    "keyword_response": "Keyword reply",
    "seat_onboarding": "Seat onboarding",
    "help_response": "Help reply",
    "automated": "Automated message",
    "external": "External system",
    "external_customer_support": "External customer support",
}
_SUBSCRIPTIONS = {"live": "Live", "opted_out": "Opted out", "blocked": "Blocked", "deleted": "Deleted"}
_LINK_TYPES = {"link": "Link", "media": "Media"}


def channel_label(value: str) -> str:
    """Return the name of a channel."""
    return _label(_CHANNELS, value)


def message_type_label(value: str) -> str:
    """Return the name of a type of outbound message."""
    return _label(_MESSAGE_TYPES, value)


def subscription_label(value: str) -> str:
    """Return the name of a subscription state."""
    return _label(_SUBSCRIPTIONS, value)


def link_type_label(value: str) -> str:
    """Return the name of a type of link."""
    return _label(_LINK_TYPES, value)


def campaign_label(name: str) -> str:
    """Return the name of a campaign, or a placeholder."""
    return name.strip() or "Untitled campaign"


def _label(labels: Mapping[str, str], value: str) -> str:
    """Return the label of a value. An unexpected value, which files contain as it is, is shown as words."""
    words = value.replace("_", " ").strip()
    return labels.get(value) or words[:1].upper() + words[1:] or "Unknown"
