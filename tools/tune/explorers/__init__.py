"""Methods of search, one per file; `vtac.tools.tune.methods` finds them."""
