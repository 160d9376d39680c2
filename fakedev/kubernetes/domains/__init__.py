"""Objects ``ComputeDomain``: nodes of racks whose pods exchange memory of GPUs, by channels of IMEX daemons.

``compute_domain.py`` says what an object asks for and what its status is; ``domain_objects.py`` follows and writes.
"""
