"""What a device's quantities are made of."""
