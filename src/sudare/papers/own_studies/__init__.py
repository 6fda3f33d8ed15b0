"""Studies of the product that belong to no paper."""
