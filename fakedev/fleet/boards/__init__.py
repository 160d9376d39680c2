"""Physics of boards with dynamics: engines, traffic, clocks, power, temperatures and fans in one tick."""
