"""The backend of a work queue: gets jobs, runs commands, reports."""
