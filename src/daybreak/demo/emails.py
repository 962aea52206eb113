"""Emails of the demo's seats. Their passwords and the key of their second factor are published.

`.example` is reserved (RFC 2606 §2), so no other seat has these emails.
"""

OWNER_EMAIL = "owner@demo.example"
ANALYST_EMAIL = "analyst@demo.example"
VISITOR_EMAIL = "visitor@demo.example"
CAREFUL_EMAIL = "careful@demo.example"
OPERATOR_EMAIL = "operator@demo.example"
DEMO_EMAILS = (OWNER_EMAIL, ANALYST_EMAIL, VISITOR_EMAIL, CAREFUL_EMAIL, OPERATOR_EMAIL)
