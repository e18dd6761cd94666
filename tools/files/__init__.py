"""Files of IR and of encoded programs."""
