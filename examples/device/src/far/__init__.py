"""The device `far`: another process."""
