"""What a compiled model needs to run."""
