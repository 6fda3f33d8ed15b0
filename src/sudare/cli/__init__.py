"""The command `sudare`: one file per command, no mathematics."""
