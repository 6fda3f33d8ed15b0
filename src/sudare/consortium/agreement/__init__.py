"""What members have agreed on, who they are, and what their stewards allow."""
