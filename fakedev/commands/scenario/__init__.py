"""``fakedev scenario``: runs timelines, writes their history, and scores alert rules."""
