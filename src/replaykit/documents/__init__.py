"""Documents: YAML and JSON files that people write, with line numbers, validation and JSON Schema.

`document` reads a file, `shape` declares what it may contain, and `yaml_writer` writes it for people. The package knows
nothing about the meaning of the files.
"""
