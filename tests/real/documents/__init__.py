"""The commands of the documents, as they are written there."""
