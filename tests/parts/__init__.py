"""Real servers and programs for tests. They start with the first test that needs them, on 127.0.0.1 only."""
