"""Styles, icons and templates that the dashboard and the documentation pages share."""
