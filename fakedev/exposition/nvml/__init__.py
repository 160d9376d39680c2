"""The state of nodes as the bytes that the NVML library reads (:mod:`fakedev.spec.nvml_layout`)."""
