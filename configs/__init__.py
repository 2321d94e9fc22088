"""Data shipped with prebake: the JSON Schema of buckets.yaml and the demo's dataset."""
