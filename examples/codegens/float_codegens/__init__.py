"""Two codegens that compute in floating point: ``json`` and ``c``, each with its engine."""
