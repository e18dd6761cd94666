"""The compilation of a model, from the file to a module that runs."""
