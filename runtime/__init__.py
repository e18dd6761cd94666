"""Runs compiled models: packages, the steps on the host, devices, and exported C projects."""
