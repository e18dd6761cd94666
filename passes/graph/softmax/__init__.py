"""Softmax over the lanes of an element, in integers on machines that multiply."""
