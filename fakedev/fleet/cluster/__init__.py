"""A living cluster: jobs that arrive, wait, run, fail and come back, and services that follow the day.

Start with `lifecycle.py` (what happens between two ticks). `jobs.py` draws the jobs and their ends, `scheduler.py`
finds places, `serving.py` has the queues of inference engines.
"""
