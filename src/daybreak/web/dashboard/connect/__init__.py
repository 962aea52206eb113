"""Connect: recipes that open an account's tables in a tool."""
