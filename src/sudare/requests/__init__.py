"""A request for a release: what can be asked for, what its result would be worth."""
