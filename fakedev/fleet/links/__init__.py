"""Links between the devices of a node, and switches: traffic, errors, and links that are down."""
