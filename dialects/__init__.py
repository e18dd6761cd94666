"""What programs are made of: the dialects graph, te, vta and target."""
