"""MSBC: instruction table, codec, text form, frontend and verifier."""
