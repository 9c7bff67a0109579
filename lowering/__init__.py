"""From one level of the IR to the next: `nn` to `tile` to `loops`."""
