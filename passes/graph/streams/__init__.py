"""Streams of rows that the host would normalise, in integers on machines that multiply."""
