"""Data, not code: the files of the web page at ``/``."""
