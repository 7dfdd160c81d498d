"""The built-in agents."""
