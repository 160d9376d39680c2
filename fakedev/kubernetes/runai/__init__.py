"""The topology of run-ai's fake-gpu-operator: its values, its files, and the fleet as its server describes it.

Start with `operator.py`. `operator_port.py` touches the outside.
"""
