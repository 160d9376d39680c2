"""The files of the web page at ``/``: data, no code."""
