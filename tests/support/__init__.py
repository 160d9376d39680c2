"""What tests share: fleets, ports, pages, programs."""
