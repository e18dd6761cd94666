"""The default schedule: what a kernel consists of, which tiles fit, what they cost."""
