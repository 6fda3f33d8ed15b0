"""What carries bytes between members of different organisations."""
