"""What needs several rooms: commands, the compilation of a model, reports, search.

``commands`` has the commands and their parsers, ``driver`` compiles models, ``tensor_expressions``
is `vtac.te`, ``files`` reads and writes IR and programs, ``reports`` and ``report_page`` show what
came out, ``tune`` searches for schedules and ``explore_machines`` for machines.
"""
