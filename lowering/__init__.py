"""From one level to the next."""
