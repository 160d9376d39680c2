"""Bytes to messages and back, for all line protocols. Pure, and imports nothing of ours."""
