"""Schedules as other compilers write them: baselines for the default rule."""
