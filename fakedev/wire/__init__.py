"""Parsing and encoding of the messages of all line protocols. Pure."""
