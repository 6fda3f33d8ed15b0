"""Paper 003 (Ide 2021): sums without a server and the pattern dictionary."""
