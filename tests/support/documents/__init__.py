"""Generated sections of documents, and what writes them."""
