"""Programs that replace the originals: exporter, dcgm-exporter, frontend, backend, client."""
