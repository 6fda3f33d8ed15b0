"""What members do together: tasks of an agreement, what they cost, and how a member takes part in them."""
