"""What proves who somebody is: pure functions over secrets, no state and no network."""
