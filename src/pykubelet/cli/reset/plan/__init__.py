"""What is a leftover of this program, and what is not; pure."""
