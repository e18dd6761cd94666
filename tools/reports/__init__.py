"""What is known of a compilation and of its results: costs, places, errors, accuracy."""
