"""A request for a release: what can be asked for, what it would cost and be worth, who approved it, and how it is run; from shell and page alike."""
