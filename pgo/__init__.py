"""Build-time tools: profiles, bucket planning, code generation, packaging hooks, command line."""
