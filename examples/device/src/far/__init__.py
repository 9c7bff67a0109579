"""The device `far`, which is another process."""
