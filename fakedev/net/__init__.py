"""The Twisted side: protocols, ticker, web resources. Thin."""
