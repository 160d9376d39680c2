"""What the fleet runs for the pods of a cluster.

Start with `pod_records.py` (all pods), then `pod_record.py` (one pod) and `work.py` (what its annotations ask for).
"""
