"""Which axes of a tensor expression lie in the lanes of the machine's elements, and the rewrite."""
