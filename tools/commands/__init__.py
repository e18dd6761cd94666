"""The commands: what each does with its arguments, and what people see of it."""
