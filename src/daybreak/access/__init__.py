"""Authentication, authorization, and administration of seats and API tokens."""
