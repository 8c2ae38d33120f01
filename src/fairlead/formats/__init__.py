"""Files in and out: problem files as YAML or JSON."""
